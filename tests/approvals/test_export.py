"""Every request and decision as typed JSON: complete, digested, in order, bounded in time, and only one's own."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from io import StringIO
from typing import Any

import jsonschema_rs
import pytest
from django.core.management import call_command

from approvals.actions.own import OwnAction, ask_own
from approvals.actions.propose import propose_edit
from approvals.records import RECORD_SCHEMA
from runtime.kernel.canonical import canonical_bytes, digest
from tests.support.api import caller, problem
from tests.support.duties import expire_requests

pytestmark = [pytest.mark.req("C5.3", "A7.2", "C6.1"), pytest.mark.django_db(transaction=True)]


def walk(reader: Any, query: str = "", limit: int = 2) -> list[dict[str, Any]]:
    """Return everything that the export holds, page by page."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = reader.get(f"approvals/export/?limit={limit}{query}{cursor}").json()
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def test_a_record_tells_the_request_its_action_and_each_decision(office):
    run_id = office.ask({"to": "Ada"})
    request = office.pending(run_id)
    office.decide(request, comment="seen")
    office.work()
    (record,) = walk(caller(office.tenant))
    assert jsonschema_rs.validator_for(RECORD_SCHEMA).is_valid(record)
    assert (record["id"], record["intent_id"], record["state"]) == (str(request["id"]), str(request["id"]), "consumed")
    assert record["action"]["sha256"] == request["action_hash"]
    (call,) = record["action"]["calls"]
    assert (call["tool"], call["arguments"]) == ("office.pay@1", {"to": "Ada", "rate": "2.50"})
    assert call["arguments_sha256"] == digest(canonical_bytes(call["arguments"])).hex()
    assert call["used_at"] is not None
    (said,) = record["decisions"]
    assert (said["decision"], said["by"], said["comment"]) == ("approve", office.approver.label, "seen")
    assert (said["action_sha256"], said["payload_sha256"]) == (request["action_hash"], request["payload_hash"])
    assert digest(canonical_bytes(record["shown"])).hex() == record["payload_sha256"]
    assert record["expires_at"] is not None


def test_an_edit_keeps_the_intent_and_an_expiry_its_deadline(office, clock):
    first = office.pending(office.ask({"to": "Bo"}))
    quoted = {name: first[name] for name in ("version", "payload_hash")}
    propose_edit(
        actor=office.approver, request_id=first["id"], arguments={"to": "Bo", "rate": "1"}, comment="less", **quoted
    )
    clock.advance(3601)
    assert expire_requests() >= 1
    before, after = walk(caller(office.tenant))
    assert (before["state"], after["state"], after["outcome_reason"]) == ("superseded", "rejected", "timeout")
    assert before["intent_id"] == after["intent_id"] == before["id"]
    assert (before["superseded_by"], after["supersedes"], after["proposal"]) == (after["id"], before["id"], 2)
    assert after["action"]["sha256"] != before["action"]["sha256"]
    assert (after["decisions"], after["decided_by"]) == ([], None)
    assert after["closed_at"] >= after["expires_at"]


def test_pages_go_on_where_the_last_one_ended_and_keep_to_their_time(office, clock):
    marks = []
    for _ in range(5):
        marks.append(office.run_now())
        office.ask()
        clock.advance(60)
    reader = caller(office.tenant)
    every = walk(reader, limit=2)
    assert [one["asked_at"] for one in every] == sorted(one["asked_at"] for one in every)
    assert len({one["id"] for one in every}) == 5
    since, until = (mark.isoformat().replace("+00:00", "Z") for mark in (marks[1], marks[3]))
    assert walk(reader, f"&since={since}&until={until}", limit=1) == every[1:3]
    problem(reader.get("approvals/export/?since=yesterday"), 400)
    problem(reader.get("approvals/export/?cursor=abc"), 400)
    problem(reader.get("approvals/export/?limit=201"), 400)


def test_who_goes_on_where_it_is_settled_misses_no_request_that_was_committed_late(test_database, office):
    first = ask_own(actor=office.integrator, key="1", action=OwnAction("bank.wire@1", {}), title="Wire")
    late = uuid.uuid4()
    reader = caller(office.tenant)
    with test_database.connect("qd_worker") as other, other.transaction():
        other.execute("SELECT set_config('qd.tenant', %s, true)", [str(office.tenant.id)])
        changes = "jsonb_build_object('id', %s::uuid, 'subject_id', 'late', 'created_at', qd_now())"
        copy = (
            f"INSERT INTO qd_approval SELECT (jsonb_populate_record(a, {changes})).* FROM qd_approval a WHERE id = %s"
        )
        other.execute(copy.encode(), [late, first["approval_id"]])
        office.ask()
        one = reader.get("approvals/export/?limit=1").json()
        two = reader.get(f"approvals/export/?limit=9&cursor={one['next']}").json()
    assert str(late) not in {record["id"] for record in one["items"] + two["items"]}
    assert one["settled_until"] == two["settled_until"]
    last = two["items"][-1]["asked_at"]
    assert str(late) not in {record["id"] for record in walk(reader, f"&since={last}")}
    assert str(late) in {record["id"] for record in walk(reader, f"&since={two['settled_until']}")}


def test_a_page_of_long_requests_ends_early(office, monkeypatch):
    monkeypatch.setattr("approvals.records.MOST_BYTES", 10)
    for _ in range(3):
        office.ask()
    reader = caller(office.tenant)
    assert len(reader.get("approvals/export/").json()["items"]) == 1
    assert len(walk(reader, limit=200)) == 3


def test_who_reads_what(office, other_tenant):
    office.ask({"to": "Cy"})
    (seen,) = walk(caller(office.tenant, "viewer"))
    assert seen["redacted"] is True
    assert "shown" not in seen
    assert "Cy" not in json.dumps(seen["action"]["calls"][0].get("arguments", ""))
    assert seen["action"]["sha256"]
    assert walk(caller(other_tenant)) == []
    problem(caller(office.tenant, "admin", ["run.read"]).get("approvals/export/"), 403)
    mine = caller(office.tenant).get("approvals/export/?limit=1").json()
    assert mine["next"] is None
    office.ask()
    cursor = caller(office.tenant).get("approvals/export/?limit=1").json()["next"]
    problem(caller(other_tenant).get(f"approvals/export/?cursor={cursor}"), 400)


def test_the_schema_is_published_and_the_command_prints_what_the_api_answers(office):
    office.ask()
    assert caller(office.tenant).get("approvals/schema/").json() == RECORD_SCHEMA
    printed = StringIO()
    call_command("approvals", "export", "--tenant", office.tenant.slug, stdout=printed)
    lines = [json.loads(line) for line in printed.getvalue().splitlines()]
    assert lines == walk(caller(office.tenant))
    since = (office.run_now() + timedelta(hours=1)).isoformat()
    nothing = StringIO()
    call_command("approvals", "export", "--tenant", office.tenant.slug, "--since", since, stdout=nothing)
    assert nothing.getvalue() == ""
