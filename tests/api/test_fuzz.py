"""Schemathesis reads the published document and sends what it allows and what it does not: no 5xx, no surprise.

What is refused says how to mend it; that a refusal changes nothing is asked in ``test_refusals``.
"""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, settings
from schemathesis.checks import CHECKS, load_all_checks

from dashboard.config.wsgi import application
from tests.support.api import furnish
from tests.support.factories import make_tenant

pytestmark = [pytest.mark.req("C6.1"), pytest.mark.django_db(transaction=True)]

load_all_checks()
ASKED = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    )
]


@pytest.fixture(scope="module")
def token(database, django_db_blocker) -> str:
    """A token of an admin whose tenant has one task."""
    with django_db_blocker.unblock():
        # With a second tenant there, nobody's admin may stop the whole installation.
        make_tenant()
        admin = furnish(make_tenant())
        admin.submit()
        assert admin.token is not None
        return admin.token


# Reading the document asks the database nothing, so it may happen while tests are collected.
schema = schemathesis.openapi.from_wsgi("/api/v1/schema/", application)
LITERAL = {path for path in schema.raw_schema["paths"] if "{" not in path}


@schema.parametrize()
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_it(case, token):
    # An id that is another address' own word asks that address, which has a form of its own.
    assume("{" not in case.path or case.formatted_path not in LITERAL)
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
    answer = case.call_and_validate(checks=ASKED)
    if answer.status_code >= 400:
        assert answer.json()["remediation"].strip(), answer.json()
