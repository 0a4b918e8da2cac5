"""Force is not undone: its follow-up is a new execution version, and the mark of the hand stays (A2.6, A9.6)."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.actions.steps import force_step, rerun_step, skip_step
from runtime.kernel.errors import MoveRefused, OperationOpen
from runtime.queries.reruns import preview_rerun
from runtime.queries.runs import steps_by_hand
from tests.support.api import caller
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.pages import Reader
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A2.6", "A9.6"), pytest.mark.django_db(transaction=True)]


def forced(engine: Engine) -> Any:
    """Return an open run in which ``a`` failed and was forced, and ``b`` behind it runs."""
    run = engine.submit(workflow(tool("z"), tool("a"), tool("b", "a"), tool("c", "b"), name="forced"))
    engine.finish("a", "failed")
    engine.act(force_step, run, "a", evidence="ticket 5")
    engine.claim()
    assert engine.statuses(run) == {"z": "running", "a": "mark_successed", "b": "running", "c": "waiting"}
    return run


def test_the_forced_row_stays_and_a_new_version_follows_it_up(engine):
    run = forced(engine)
    old = engine.step(run, "a")
    answer = engine.act(rerun_step, run, "a", reason="the desk was wrong")
    assert (answer["status"], answer["execution_version"]) == ("queued", 2)
    assert engine.statuses(run) == {"z": "running", "a": "queued", "b": "waiting", "c": "waiting"}
    kept = engine.step(run, "a", 1)
    assert (kept.status, kept.forced, kept.superseded, kept.finished_at) == (
        "mark_successed", True, True, old.finished_at,
    )  # fmt: skip
    new = engine.step(run, "a")
    assert (new.forced, new.owner_epoch >= old.owner_epoch) == (False, True)
    assert [one for one in engine.types(run, "a") if one in ("STEP_FORCED", "STEP_RERUN")] == [
        "STEP_FORCED", "STEP_RERUN",
    ]  # fmt: skip
    assert steps_by_hand(actor=engine.actor, run_ids=[run])[run]["forced"] == 1
    engine.check(run)
    # Nothing but the step's own success counts now.
    engine.finish("a", "failed")
    assert engine.statuses(run)["b"] == "skipped(upstream_failed)"
    engine.act(rerun_step, run, "a")
    for node in ("a", "b", "c", "z"):
        engine.finish(node)
    assert engine.run(run).status == "completed"
    assert steps_by_hand(actor=engine.actor, run_ids=[run])[run]["forced"] == 1
    engine.check(run)


def test_the_old_version_is_left_by_nobody(engine):
    run = forced(engine)
    old = engine.step(run, "a")
    engine.act(rerun_step, run, "a")
    for verb in (rerun_step, force_step, skip_step):
        more = {"evidence": ""} if verb is force_step else {}
        with pytest.raises(MoveRefused, match="newer execution version"):
            verb(actor=engine.actor, step_id=old.id, expected_version=old.version, reason="again", **more)


def test_it_is_refused_while_its_effect_is_open_and_the_preview_says_so(engine):
    run = engine.submit(workflow(tool("z"), tool("a"), tool("b", "a"), name="open"))
    [claimed] = [one for one in engine.claim() if one.node.id == "a"]
    send(engine, claimed, f"pay:{run}")
    engine.report(claimed, "unknown", operation_status="unknown")
    engine.act(force_step, run, "a", evidence="")
    step = engine.step(run, "a")
    seen = preview_rerun(actor=engine.actor, step_id=step.id)
    assert (seen["how"], seen["runs"]) == ("nothing", [])
    assert f"pay:{run}" in seen["why_not"]
    assert [(one["node"], one["status"]) for one in seen["still_open"]] == [("a", "unknown")]
    with pytest.raises(OperationOpen):
        engine.act(rerun_step, run, "a")
    assert engine.step(run, "a").id == step.id


def test_what_will_run_is_told_before_by_api_and_dialog(engine, tenant):
    run = forced(engine)
    step = engine.step(run, "a")
    seen = caller(tenant, "oncall").get(f"steps/{step.id}/rerun-preview/").json()
    assert (seen["how"], seen["why_not"], seen["execution_version"]) == ("again", None, 1)
    assert (seen["runs"], seen["may_run"], seen["ended"]) == (["a", "b", "c"], [], ["b"])
    reader = Reader(tenant, "oncall")
    dialog = reader.get(f"/steps/{step.id}/verbs/rerun/")
    assert "this version stays marked by hand" in dialog
    assert "Ended first" in dialog
    words = {"version": str(step.version), "seq": str(engine.run(run).seq), "reason": "the desk was wrong"}
    reader.post(f"/steps/{step.id}/verbs/rerun/", words)
    assert engine.step(run, "a").execution_version == 2
    assert "by hand" in reader.get(f"/runs/{run}/")


def test_in_a_finished_run_its_follow_up_is_a_new_run(engine):
    run = engine.submit(workflow(tool("a"), tool("b", "a"), name="ended"))
    engine.finish("a", "failed")
    assert engine.run(run).status == "failed"
    engine.act(force_step, run, "a", evidence="")
    seen = preview_rerun(actor=engine.actor, step_id=engine.step(run, "a").id)
    assert (seen["how"], seen["runs"]) == ("new_run", ["a", "b"])
    answer = engine.act(rerun_step, run, "a")
    assert (answer["rerun_of"], answer["adopts"]) == (str(run), [])
    assert engine.step(run, "a").status == "mark_successed"
    engine.check(run)
