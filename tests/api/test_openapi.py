"""The published document is valid OpenAPI 3.1 and names every address; the docs need no other server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from drf_spectacular.validation import validate_schema

from tests.support.api import Caller

pytestmark = [pytest.mark.req("C6.1"), pytest.mark.django_db(transaction=True)]

ADDRESSES = """
GET,POST tasks/ | POST tasks/bulk/ | GET tasks/{task_id}/ | POST tasks/{task_id}/runs/
GET,POST tasks/{task_id}/outcome/ | GET search/ | GET runs/ | GET runs/{run_id}/ | GET runs/{run_id}/events/
GET,POST runs/{run_id}/replay/
GET runs/{run_id}/snapshot/ | GET runs/{run_id}/graph/ | GET runs/{run_id}/steps/ | POST runs/{run_id}/cancel/
POST runs/{run_id}/signals/{name}/ | GET tasks/{task_id}/evidence/ | GET steps/{step_id}/attempts/
GET steps/{step_id}/arguments/
POST runs/{run_id}/pause/ | POST runs/{run_id}/resume/ | GET steps/{step_id}/ | POST steps/{step_id}/rerun/
POST steps/{step_id}/skip/ | POST steps/{step_id}/unskip/ | POST steps/{step_id}/hold/
POST steps/{step_id}/release/ | POST steps/{step_id}/kill/ | POST steps/{step_id}/mark-successed/
GET,POST sessions/ | GET,PUT sessions/{session_id}/ | GET,POST sessions/{session_id}/tasks/
GET,POST workflows/ | GET workflows/{name}/versions/ | GET workflows/schema/ | GET,POST tools/
POST tools/{name}/versions/{number}/retire/ | POST verifiers/{name}/versions/{number}/revoke/
GET operations/{operation_id}/ | POST operations/{operation_id}/query/ | POST attempts/{attempt_id}/callback/
POST artifacts/ | GET artifacts/{artifact_id}/ | GET workers/ | GET audit/
GET,POST tokens/ | GET,POST members/ | GET approvals/ | GET approvals/{approval_id}/
POST approvals/{approval_id}/decide/ | POST approvals/{approval_id}/propose/ | POST approvals/{approval_id}/claim/
POST approvals/{approval_id}/release/ | POST approvals/{approval_id}/delegate/ | POST approvals/{approval_id}/extend/
POST approvals/{approval_id}/escalate/ | POST approvals/{approval_id}/revoke/ | POST approvals/bulk/
GET approvals/export/ | GET approvals/schema/ | GET approvals/statistics/
GET approvals/{approval_id}/wait/ | POST approvals/ | POST approvals/{approval_id}/consume/
POST approvals/{approval_id}/outcome/
POST approvals/{approval_id}/comments/ | POST steps/{step_id}/input/
GET,POST policies/ | POST policies/try/ | GET,POST delegations/ | POST delegations/{delegation_id}/end/
GET,POST stops/ | POST stops/{stop_id}/lift/ | GET alerts/
GET,POST repairs/ | GET repairs/{repair_id}/ | POST repairs/{repair_id}/claim/ | POST repairs/{repair_id}/release/
POST repairs/{repair_id}/hand-over/ | POST repairs/{repair_id}/investigate/ | POST repairs/{repair_id}/propose/
POST repairs/{repair_id}/review/ | POST repairs/{repair_id}/resolve/ | POST repairs/{repair_id}/keep-pending/
GET repairs/{repair_id}/resume-preview/ | GET,POST runbooks/ | GET runbooks/versions/
GET,POST escalation-chain/ | GET escalation-chain/versions/ | GET steps/{step_id}/rerun-preview/
GET,POST bulk-repairs/ | GET bulk-repairs/{bulk_id}/ | POST bulk-repairs/{bulk_id}/order/
POST bulk-repairs/{bulk_id}/review/ | POST bulk-repairs/{bulk_id}/pause/ | POST bulk-repairs/{bulk_id}/resume/
POST bulk-repairs/{bulk_id}/abort/
GET,POST limits/ | DELETE limits/{limit_id}/ | GET breakers/ | POST breakers/{breaker_id}/close/
POST breakers/{breaker_id}/open/
GET outbox/ | GET quarantine/ | POST quarantine/{message_id}/replay/ | POST quarantine/{message_id}/discard/
"""


@pytest.fixture
def document(tenant, capsys):
    answer = Caller(None, tenant).get("schema/")
    assert answer.status_code == 200
    assert "warning" not in capsys.readouterr().err.lower()
    return answer.json()


def test_the_document_is_valid(document):
    assert document["openapi"].startswith("3.1")
    validate_schema(document)


def test_every_address_is_named(document):
    for entry in re.split(r"[|\n]", ADDRESSES):
        if not entry.strip():
            continue
        methods, path = entry.split()
        there = document["paths"][f"/api/v1/{path}"]
        for method in methods.split(","):
            assert method.lower() in there, entry


def test_every_reference_resolves_and_every_method_tells_its_problems(document):
    known = set(document["components"]["schemas"])
    used = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert used <= known
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], path
            told = operation["responses"]["404"]["content"]
            assert "application/problem+json" in told, (path, method)


def test_operation_ids_are_unique(document):
    ids = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


def test_yaml_is_there_too(tenant):
    assert b"openapi: 3.1" in Caller(None, tenant).get("schema/?format=yaml").content


def test_the_docs_load_nothing_from_elsewhere(tenant):
    from django.contrib.staticfiles import finders

    answer = Caller(None, tenant).get("docs/")
    page, policy = answer.content.decode(), answer["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)", page), "the policy lets no script in the page run"
    (script,) = re.findall(r'src="(/api/v1/docs/[^"]+)"', page)
    made = Caller(None, tenant).get(script.removeprefix("/api/v1/"))
    assert made["Content-Type"].startswith("application/javascript")
    assert b"SwaggerUIBundle" in made.content
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    files = re.findall(r"(?:src|href)=\"(/static/[^\"]+)\"", page)
    assert files
    for file in files:
        found = finders.find(re.sub(r"^/static/v-[0-9a-f]+/", "", file))
        assert found, file
        assert Path(found).stat().st_size > 0
