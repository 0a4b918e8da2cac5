"""The apps share one tree of addresses: none of them hides another's, and what nobody knows is told as a problem."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.urls import URLPattern, URLResolver, get_resolver, resolve

from runtime.api.views.meta import Nowhere

pytestmark = pytest.mark.req("C6.1")

_CONVERTER = re.compile(r"<(?:\w+:)?\w+>")


def patterns(resolver: URLResolver, before: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Yield every pattern below a resolver, with an address that is meant for it."""
    for one in resolver.url_patterns:
        route = before + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from patterns(one, route)
        elif "(?P" not in route:
            yield "/" + _CONVERTER.sub("x1", route), one


def test_every_address_of_the_api_is_answered_by_whom_it_was_made_for():
    found = [(address, one) for address, one in patterns(get_resolver()) if address.startswith("/api/v1/")]
    assert len({address.split("/")[3] for address, _one in found} & {"tasks", "approvals", "repairs"}) == 3
    hidden = [address for address, one in found if resolve(address).func is not one.callback]
    assert hidden == []


def test_an_address_that_nobody_knows_is_a_problem_of_the_api():
    assert resolve("/api/v1/approvals/x/y/z/").func.view_class is Nowhere
