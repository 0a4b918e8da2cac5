"""A resume is shown before it is ordered, and what was shown is what runs, or nothing does (C8.4)."""

from __future__ import annotations

import pytest

from repair.errors import OtherPreview
from repair.resuming import preview_resume
from runtime.actions.steps import skip_step
from tests.support.api import caller, problem
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.4", "A9.6"), pytest.mark.django_db(transaction=True)]


def nodes(steps) -> list[str]:
    return [one["node"] for one in steps]


def test_the_preview_names_what_runs_what_is_reused_and_what_it_costs_and_so_it_is(desk):
    case = desk.saw(desk.taken(desk.lost("human")), "absent")
    run_id = case["run_id"]
    shown = preview_resume(actor=desk.oncall, case_id=case["id"])
    assert (nodes(shown["runs"]), nodes(shown["perhaps"]), nodes(shown["reused"])) == (["pay", "tell"], [], [])
    assert (shown["how"], shown["why_not"]) == ("again", None)
    assert [one["sends_again"] for one in shown["runs"]] == [True, False]
    assert shown["cost"] == {"calls": 2, "calls_most": 6, "writes": 1, "people": 0, "seconds_most": 195.0}
    desk.finish_case(case, "resume_step", arguments={"preview": shown["preview"]})
    desk.work()
    assert desk.run(run_id).status == "completed"
    assert desk.operation(run_id).sends == 2
    assert {node: desk.step(run_id, node).execution_version for node in ("pay", "tell")} == {"pay": 2, "tell": 2}


def test_where_something_else_would_run_by_now_the_order_is_refused_and_nothing_is_sent(desk):
    pay = {"id": "pay", "kind": "tool", "tool": "desk.idempotent@1", "business_key": "'pay:' + input.to",
           "input": {"to": {"$": "input.to"}}}  # fmt: skip
    run_id = desk.submit(workflow(pay, tool("tell", "pay"), name="changes"), {"to": f"changes-{desk.tenant.slug}"})
    [claimed] = desk.claim()
    desk.lose(claimed)
    desk.opened(run_id, "pay")
    case = desk.saw(desk.taken(run_id), "absent")
    shown = preview_resume(actor=desk.oncall, case_id=case["id"])
    assert (shown["how"], nodes(shown["runs"])) == ("goes_on", ["pay", "tell"])
    desk.act(skip_step, run_id, "tell")
    with pytest.raises(OtherPreview):
        desk.finish_case(case, "resume_step", arguments={"preview": shown["preview"]})
    assert (desk.operation(run_id).status, desk.operation(run_id).sends) == ("unknown", 1)
    assert desk.read(case["id"])["resolution"] is None
    again = preview_resume(actor=desk.oncall, case_id=case["id"])
    assert nodes(again["runs"]) == ["pay"]


def test_a_preview_says_why_nothing_may_be_ordered_and_changes_nothing(desk):
    case = desk.taken(desk.lost("human"))
    shown = preview_resume(actor=desk.oncall, case_id=case["id"])
    assert shown["why_not"] == "Sent again only once the outside has said that it is absent."
    assert desk.read(case["id"])["version"] == case["version"]


def test_the_preview_over_http(desk):
    case = desk.case(desk.lost("human"))
    ada = caller(desk.tenant, "oncall")
    shown = ada.get(f"repairs/{case['id']}/resume-preview/").json()
    assert nodes(shown["runs"]) == ["pay", "tell"]
    assert len(shown["preview"]) == 64
    problem(ada.get(f"repairs/{case['id']}/resume-preview/?x=1"), 400)
