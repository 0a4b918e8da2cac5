"""Cases open by themselves, whatever it is that needs a person; one open case a subject, one cause together (C8.4)."""

from __future__ import annotations

import uuid

import orjson
import pytest
from django.core.management import call_command

from repair.queries import case_groups, get_case, list_cases
from runtime.actions.steps import force_step
from runtime.kernel.ids import uuid7
from runtime.store.directory import all_tenants
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance import breaches, lost, timers
from runtime.worker.maintenance.breaches import Searcher
from runtime.worker.maintenance.outbox import deliver
from tests.support.engine import force_columns, past_every_guard
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("C8.4"),
    pytest.mark.django_db(transaction=True),
    # The duties look at every tenant.
    pytest.mark.usefixtures("fresh_db"),
]


def of_kind(desk, kind: str) -> list[dict]:
    """Return the open cases of a kind, whole."""
    found = list_cases(actor=desk.admin, kind=kind).items
    return [get_case(actor=desk.admin, case_id=one["id"]) for one in found]


def facts(case: dict) -> dict:
    return {one["name"]: one["value"] for one in case["confirmed"]}


def poison(desk, clock, topic: str) -> None:
    """Write a message that nobody can make, and let the outbox give it up."""
    with tenant_tx(desk.tenant.id) as tx:
        body = orjson.dumps({"secret": "of the customer"}).decode()
        tx.send("outbox_insert", (uuid7(), tx.tenant_id, uuid7(), topic, body, tx.now()))
    for _ in range(3):
        deliver()
        clock.advance(3600)


def lose(desk, clock) -> dict[str, int]:
    """Lose the worker of whatever is claimed, and wait out what is tried again later."""
    timers.fire_timers()
    desk.claim()
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [desk.session_id]))
    answer = lost.return_orphans()
    desk.renew()
    clock.advance(60)
    return answer


@pytest.mark.req("C2.6")
def test_a_poison_message_is_a_persons_and_all_of_a_topic_are_one_case(desk, clock, as_role):
    with as_role("worker"):
        poison(desk, clock, "nobody.makes")
    [case] = of_kind(desk, "poison_message")
    assert (case["state"], case["opened_by"], case["run"]) == ("open", "engine", None)
    assert (facts(case)["topic"], facts(case)["attempts"]) == ("nobody.makes", 3)
    assert case["title"].startswith("A message of nobody.makes is in quarantine: ")
    assert "customer" not in repr(case), "facts hold no payloads"
    poison(desk, clock, "nobody.makes")
    poison(desk, clock, "another.topic")
    assert len(of_kind(desk, "poison_message")) == 2


@pytest.mark.req("A6.2")
def test_a_step_that_takes_its_workers_down_is_a_persons(desk, clock):
    run_id = desk.submit(workflow(tool("a"), name="poison"))
    for _ in range(5):
        lose(desk, clock)
    assert desk.statuses(run_id) == {"a": "failed"}
    [case] = of_kind(desk, "stuck")
    assert (case["subject_kind"], case["node"], case["run_id"]) == ("step", "a", run_id)
    assert (facts(case)["workers_lost"], facts(case)["error"]["code"]) == (5, "worker_lost")
    desk.check(run_id)


@pytest.mark.req("C4.4")
def test_what_was_written_under_another_version_is_a_persons(desk, clock, fresh_db):
    run_id = desk.submit(workflow(tool("a"), tool("b", "a"), name="older"))
    desk.claim()
    with past_every_guard(fresh_db) as connection:
        retire = "UPDATE qd_tool_version SET retired_at = now() WHERE name = 'core.noop' AND tenant_id = %s"
        connection.execute(retire, [desk.tenant.id])
    assert lose(desk, clock)["parked"] == 1
    [case] = of_kind(desk, "version_mismatch")
    assert (case["node"], case["run_id"], case["step"]["cause"]) == ("a", run_id, "recovery")
    assert "retired" in case["title"]


def test_a_run_that_fails_after_effects_outside_names_them(desk):
    pay = {"id": "pay", "kind": "tool", "tool": "desk.human@1", "business_key": "'pay:' + input.to", "input": {}}
    run_id = desk.submit(workflow(pay, tool("tell", "pay"), name="half"), {"to": f"half-{desk.tenant.slug}"})
    [claimed] = desk.claim()
    desk.call([claimed])
    desk.finish("tell", "failed")
    [case] = of_kind(desk, "failed_with_effects")
    assert (case["run_id"], desk.run(run_id).status) == (run_id, "failed")
    assert facts(case)["effects_applied"] == [f"pay:half-{desk.tenant.slug}"]
    # Nothing outside was done: nothing to look after.
    harmless = desk.submit(workflow(tool("tell"), name="harmless"))
    desk.finish("tell", "failed")
    assert desk.cases(harmless) == []


@pytest.mark.req("C1.9")
def test_a_breach_of_an_invariant_is_a_case_where_that_is_asked_for(desk, fresh_db):
    run_id = desk.submit(workflow(tool("a"), name="broken"))
    desk.act(force_step, run_id, "a")
    force_columns(fresh_db, "qd_step", desk.step(run_id, "a").id, forced=False)
    found = []
    for arguments in ([], ["--cases"], ["--cases"]):
        with pytest.raises(SystemExit):
            call_command("invariants", "--tenant", desk.tenant.slug, *arguments)
        cases = {facts(one)["invariant"]: one for one in of_kind(desk, "invariant_breach")}
        found.append(set(cases))
        assert len(cases) == len(of_kind(desk, "invariant_breach")), "one open case a number"
    assert found[0] == set()
    assert 12 in found[1] == found[2]
    assert str(desk.step(run_id, "a").id) in facts(cases[12])["found"][0]


@pytest.mark.req("C1.9")
def test_a_breach_opens_its_case_by_itself_once_and_learns_only_what_is_new(desk, fresh_db, as_role):
    searcher = Searcher()
    run_id = desk.submit(workflow(tool("a"), tool("b", "a"), tool("c", "a"), name="stands"))
    with as_role("worker"):
        assert searcher.run_once() == 0
    force_columns(fresh_db, "qd_step", desk.step(run_id, "b").id, deps_left=0)
    with as_role("worker"):
        # Nothing will move the step (7), and its events do not rebuild it (3).
        assert searcher.run_once() == 2
        searcher.run_once()
    cases = {facts(one)["invariant"]: one for one in of_kind(desk, "invariant_breach")}
    assert (set(cases), cases[7]["opened_by"]) == ({3, 7}, "engine")
    assert str(desk.step(run_id, "b").id) in facts(cases[7])["found"][0]
    assert [one["type"] for one in cases[7]["entries"]] == ["opened"], "the same again is no news"
    force_columns(fresh_db, "qd_step", desk.step(run_id, "c").id, deps_left=0)
    with as_role("worker"):
        searcher.run_once()
    case = next(one for one in of_kind(desk, "invariant_breach") if facts(one)["invariant"] == 7)
    assert ([one["type"] for one in case["entries"]], facts(case)["breaches"]) == (["opened", "told"], 2)


@pytest.mark.req("C1.9")
def test_the_search_takes_few_tenants_a_turn_and_all_of_them_by_turns(desk, other_tenant, monkeypatch):
    monkeypatch.setattr(breaches, "TENANTS_A_TURN", 1)
    searcher, seen = Searcher(), []
    names = sorted(one.slug for one in all_tenants())
    for _ in range(2 * len(names)):
        searcher.run_once()
        seen.append(searcher.last)
    assert seen == names * 2


def test_one_subject_has_one_open_case_and_learns_what_is_new(desk):
    run_id = desk.lost("human")
    first = desk.case(run_id)
    opened = desk.opened(run_id, "pay")
    assert opened == first["id"], "opened by hand, it is the case that is there"
    again = desk.read(first["id"])
    assert [one["type"] for one in again["entries"]] == ["opened", "told"]
    other = desk.lost("human")
    assert desk.case(other)["fingerprint"] == first["fingerprint"]
    assert [(one["count"], one["tool"]) for one in case_groups(actor=desk.oncall)] == [(2, "desk.human@1")]
    assert desk.case(other)["id"] != first["id"]
    assert isinstance(opened, uuid.UUID)
