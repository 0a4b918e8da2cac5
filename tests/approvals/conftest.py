"""An office whose payments need a person; what is exported of it in the end is judged by rules that are not ours."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from runtime.access.roles import verbs_of_role
from runtime.kernel.actor import Actor
from tests.support.office import Office


@pytest.fixture
def office(tenant) -> Iterator[Office]:
    """The tenant's office. However a test leaves it, its exported trace passes agentack's rules."""
    yield Office(tenant)
    if find_spec("agentack") is not None:
        from tests.support.traces import breaches

        reader = Actor(kind="service", name="trace", tenant_id=tenant.id, verbs=verbs_of_role("admin"))
        assert not breaches(reader)
