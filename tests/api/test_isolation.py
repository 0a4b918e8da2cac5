"""Another tenant's ids are as if they were not there, at every address and for every method (invariant 8).

The addresses are those of the URL conf, so that a new one is asked by itself.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.urls import URLResolver, get_resolver
from django.urls.resolvers import RoutePattern

from approvals.actions.delegations import add_delegation
from approvals.actions.policies import propose_policy
from approvals.models import Hook
from repair.actions.bulk import prepare_bulk
from runtime.kernel.callback import attempt_id
from runtime.kernel.ids import uuid7
from runtime.models import Breaker, Quarantined
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool
from tests.support import db as support
from tests.support.api import WORKFLOW, caller, problem
from tests.support.desk import Desk
from tests.support.office import writing

pytestmark = [pytest.mark.req("A1.4", "A10.1"), pytest.mark.django_db(transaction=True)]

SOME_HASH = "0" * 64
RULES = [{"name": "all", "when": "true", "decide": "allow"}]
VERSIONED = {"expected_version": 1, "reason": "x"}
# What an address takes beside the id; the others take nothing. One that is missing here is answered 400 and told so.
BODIES: dict[str, Any] = {
    "tasks/<str:task_id>/outcome/": {
        "run_id": str(uuid.UUID(int=1)),
        "verifier": "arrived@1",
        "verdict": "undecided",
        "criterion": "it arrived",
        "evidence": [],
    },
    "runs/<str:run_id>/signals/<str:name>/": {"event_id": "e-1"},
    **{f"steps/<str:step_id>/{verb}/": VERSIONED for verb in "rerun skip unskip hold release kill".split()},
    "steps/<str:step_id>/mark-successed/": VERSIONED,
    "steps/<str:step_id>/input/": {"value": {}},
    "sessions/<str:session_id>/": {"context": {}},
    "sessions/<str:session_id>/tasks/": {"task_id": str(uuid.UUID(int=1))},
    "tools/<str:name>/versions/<str:number>/retire/": {"reason": "x"},
    "tools/<str:name>/versions/<str:number>/samples/": {"samples": [{}]},
    "tools/<str:name>/versions/<str:number>/samples/sign/": {"reason": "x"},
    "verifiers/<str:name>/versions/<str:number>/revoke/": {"reason": "x"},
    "operations/<str:operation_id>/compensate/": {"reason": "x"},
    "operations/<str:operation_id>/query/": {"reason": "x"},
    "attempts/<str:attempt_id>/callback/": {"token": "t", "epoch": 1, "version": 1, "status": "succeeded"},
    "breakers/<str:breaker_id>/close/": {"reason": "x"},
    "breakers/<str:breaker_id>/open/": {"reason": "x"},
    "quarantine/<str:message_id>/discard/": {"reason": "x"},
    "approvals/<str:approval_id>/decide/": {"decision": "approve", "version": 1, "payload_hash": SOME_HASH},
    "approvals/<str:approval_id>/propose/": {
        "arguments": {},
        "version": 1,
        "payload_hash": SOME_HASH,
        "comment": "x",
    },
    "approvals/<str:approval_id>/delegate/": {"to": "OWN", "reason": "x"},
    "approvals/<str:approval_id>/extend/": {"seconds": 60, "reason": "x"},
    "approvals/<str:approval_id>/escalate/": {"reason": "x"},
    "approvals/<str:approval_id>/revoke/": {"reason": "x"},
    "approvals/<str:approval_id>/comments/": {"text": "x"},
    "approvals/<str:approval_id>/consume/": {"action_hash": SOME_HASH, "arguments": {}},
    "approvals/<str:approval_id>/outcome/": {"outcome": "applied"},
    "approvals/<str:approval_id>/withdraw/": {"version": 1},
    "approvals/hooks/<str:hook_id>/rotate/": {"expected_version": 1},
    "policies/<str:policy_id>/withdraw/": {"reason": "x"},
    "repairs/<str:repair_id>/claim/": VERSIONED,
    "repairs/<str:repair_id>/release/": VERSIONED,
    "repairs/<str:repair_id>/hand-over/": {"to": "OWN", "reason": "x"},
    "repairs/<str:repair_id>/investigate/": {"expected_version": 1},
    "repairs/<str:repair_id>/propose/": {"resolution": "write_off", **VERSIONED},
    "repairs/<str:repair_id>/review/": {
        "repair_id": str(uuid.UUID(int=1)),
        "decision": "approve",
        "expected_version": 1,
    },
    "repairs/<str:repair_id>/resolve/": {"expected_version": 1},
    "bulk-repairs/<str:bulk_id>/order/": {"expected_version": 1},
    "bulk-repairs/<str:bulk_id>/review/": {"decision": "approve", "expected_version": 1},
    "bulk-repairs/<str:bulk_id>/abort/": {"reason": "x"},
    "repairs/<str:repair_id>/keep-pending/": {"due_at": "2040-01-01T00:00:00Z", **VERSIONED},
}
# Recording an outcome is a verifier's alone, not even an admin's.
BY_A_VERIFIER = {("POST", "tasks/<str:task_id>/outcome/")}
# Answers without an end, or one that waits.
ENDLESS = {"runs/<str:run_id>/stream/", "approvals/<str:approval_id>/wait/"}


def addresses(patterns: Any = None) -> Iterator[tuple[str, str]]:
    """Yield (method, route) of every address of the API that names something, in the order of the URL conf."""
    for one in get_resolver().url_patterns if patterns is None else patterns:
        if isinstance(one, URLResolver):
            if patterns is not None or str(one.pattern) == "api/v1/":
                yield from addresses(one.url_patterns)
        elif patterns is not None and isinstance(one.pattern, RoutePattern) and "<" in str(one.pattern):
            methods = [name for name in ("get", "post", "put", "patch", "delete") if hasattr(one.callback.cls, name)]
            yield from ((method.upper(), str(one.pattern)) for method in methods)


def filled(route: str, things: dict[str, str]) -> str:
    """Return the address of a thing; one of a new kind belongs into ``things``."""
    return re.sub(r"<str:(\w+)>", lambda found: things[found[1]], route)


@pytest.fixture
def things(admin, tenant) -> dict[str, str]:
    """One thing of each kind that an address can name, all of the admin's tenant."""
    desk = Desk(tenant)
    asking, lost = desk.ask(), desk.lost()
    step = desk.step(lost, "pay").id
    admin.post("workflows/", {**WORKFLOW, "name": "private"})
    register_tool(actor=desk.admin, contract=writing("private"))
    with support.switched("default", role="worker"), tenant_tx(tenant.id) as tx:
        at = tx.now()
        breaker = Breaker.objects.create(tenant=tenant, tool="core.echo@1", error_class="timeout", last_failure_at=at)
        message = Quarantined.objects.create(
            tenant=tenant, outbox_id=uuid7(), event_id=uuid7(), topic="alert", schema_version=1, payload={},
            reason="broken", attempts=3, created_at=at, quarantined_at=at,
        )  # fmt: skip
    lent = add_delegation(actor=desk.approver, to=desk.admin.name, ends_at=at + timedelta(days=9), reason="away")
    stop = {"scope": "tool", "name": "core.never", "reason": "x"}
    target = {"kind": "mail", "address": "a@office.example"}
    with tenant_tx(tenant.id):
        hook = Hook.objects.create(
            tenant=tenant, url="https://hooks.example/q", format="standard", created_by="user:a", created_at=at
        )
    bulk = prepare_bulk(actor=desk.admin, resolution="keep_pending", filter={}, hours=1, reason="x")
    return {
        "task_id": str(desk.run(lost).task_id),
        "run_id": str(lost),
        "step_id": str(step),
        "operation_id": str(desk.operation(lost).id),
        "attempt_id": attempt_id(step, 1),
        "approval_id": str(desk.pending(asking)["id"]),
        "repair_id": str(desk.cases(lost)[0].id),
        "bulk_id": bulk["bulk_id"],
        "breaker_id": str(breaker.id),
        "message_id": str(message.id),
        "delegation_id": lent["delegation_id"],
        "policy_id": propose_policy(actor=desk.admin, rules=RULES, note="x")["policy_id"],
        "hook_id": str(hook.id),
        "session_id": admin.post("sessions/", {"key": "desk"}).json()["session_id"],
        "artifact_id": admin.upload(b"mine").json()["artifact_id"],
        "stop_id": admin.post("stops/", stop).json()["stop_id"],
        "limit_id": admin.post("limits/", {"scope": "tenant", "most": 9}).json()["limit_id"],
        "target_id": admin.post("alerts/targets/", target).json()["target_id"],
        "token_id": admin.post("tokens/", {"name": "x"}).json()["token_id"],
        "membership_id": admin.get("members/").json()["items"][0]["id"],
        "name": "private",
        "number": "1",
    }


def nothing(things: dict[str, str]) -> dict[str, str]:
    """Return names of the same form that name nothing anywhere."""
    nobody = str(uuid.uuid4())
    other = {"name": "nowhere", "number": "1", "attempt_id": attempt_id(nobody, 1)}
    return {kind: other.get(kind, nobody) for kind in things}


def census(tenant: Any) -> dict[str, str]:
    """Return a digest of all rows of a tenant by table."""
    listed = """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
                WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname LIKE 'qd\\_%' ORDER BY 1"""
    with tenant_tx(tenant.id) as tx:
        tables = [row[0] for row in tx.conn.execute(listed)]
        rows = "SELECT md5(coalesce(string_agg(md5(t::text), '' ORDER BY md5(t::text)), '')) FROM {} t"
        return {table: tx.conn.execute(rows.format(table)).fetchone()[0] for table in tables}


def told(answer: Any, things: dict[str, str], where: tuple[str, str]) -> dict[str, Any]:
    """Return a problem without its address and without what was asked for."""
    assert answer.status_code == 404, (where, answer.status_code, answer.content[:300])
    text = json.dumps({**problem(answer, 404), "instance": ""})
    for name in things.values():
        text = text.replace(name, "…") if len(name) > 2 else text
    return json.loads(text)


def test_nobody_elses_things_are_there_at_any_address(admin, stranger, tenant, other_tenant, things):
    """A foreign id and one that never was are answered alike, but for the address; and nothing moves."""
    verifier, theirs, missing = caller(other_tenant, "verifier"), census(tenant), nothing(things)
    asked = list(addresses())
    for method, route in asked:
        asker = verifier if (method, route) in BY_A_VERIFIER else stranger
        body = BODIES.get(route, {}) if method != "GET" and method != "DELETE" else None
        body = json.loads(json.dumps(body).replace('"OWN"', json.dumps(asker.actor.name)))
        answers = [asker.send(method, filled(route, names), body) for names in (things, missing)]
        foreign, never = (
            told(one, names, (method, route)) for one, names in zip(answers, (things, missing), strict=True)
        )
        assert foreign == never, (method, route)
    assert census(tenant) == theirs
    assert {route for method, route in asked if method != "GET"} >= set(BODIES), "addresses that are no more"
    assert len(asked) > 60


def test_what_is_kept_from_a_stranger_is_there_for_its_own(admin, things):
    for method, route in addresses():
        if method == "GET" and route not in ENDLESS:
            answer = admin.get(filled(route, things))
            assert answer.status_code == 200, (route, answer.content[:300])


def test_a_case_cannot_be_opened_about_a_foreign_run(stranger, things):
    foreign = stranger.post("repairs/", {"run_id": things["run_id"], "reason": "x"})
    never = stranger.post("repairs/", {"run_id": str(uuid.uuid4()), "reason": "x"})
    assert problem(foreign, 404) == problem(never, 404)


def test_lists_show_only_ones_own(admin, stranger):
    admin.submit()
    for path in ("tasks/", "runs/"):
        assert admin.get(path).json()["items"]
        assert stranger.get(path).json()["items"] == []
    assert stranger.get(f"runs/?task={admin.submit()['task_id']}").json()["items"] == []
    members = {one["username"] for one in stranger.get("members/").json()["items"]}
    assert admin.actor.name not in members
    assert admin.actor.name not in stranger.get("tokens/").content.decode()
    assert admin.actor.label not in stranger.get("audit/").content.decode()


def test_workflows_of_another_tenant_cannot_be_submitted_to(admin, stranger):
    admin.post("workflows/", {**WORKFLOW, "name": "private"})
    body = {"workflow": "private", "input": {"order_id": "1"}}
    problem(stranger.post("tasks/", body), 404, "not_found")
    problem(stranger.get("workflows/private/versions/"), 404)
