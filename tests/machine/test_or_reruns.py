"""An OR join that goes back takes the branches with it that it had ended (A9.4, A9.6)."""

from __future__ import annotations

import pytest

from runtime.actions.steps import rerun_step, skip_step, unskip_step
from runtime.kernel.canonical import digest
from runtime.worker.complete import complete
from runtime.worker.work import Report
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A9.4", "A9.6"), pytest.mark.django_db(transaction=True)]

RACE = (tool("a"), tool("c"), tool("b", "c"), tool("j", "a", "b", join={"mode": "any"}), tool("z", "j"))


def test_what_an_or_join_had_ended_begins_again_with_it(engine):
    """Else the join could only fail with the one branch that is left."""
    run = engine.submit(workflow(*RACE))
    engine.finish("a")
    assert engine.statuses(run) == {
        "a": "succeeded", "c": "killed(or_lost)", "b": "skipped(or_lost)", "j": "queued", "z": "waiting",
    }  # fmt: skip
    engine.act(rerun_step, run, "a")
    assert engine.statuses(run) == {"a": "queued", "c": "queued", "b": "waiting", "j": "waiting", "z": "waiting"}
    assert {node: engine.step(run, node).execution_version for node in "acbj"} == dict.fromkeys("acbj", 2)
    engine.finish("a", "failed")
    assert engine.statuses(run)["j"] == "waiting"
    for node in ("c", "b", "j", "z"):
        engine.finish(node)
    assert engine.run(run).status == "partially_completed", "a branch failed, and the join stood it"
    engine.check(run)


def test_a_branch_whose_effect_is_open_stays_ended(engine):
    run = engine.submit(workflow(*RACE))
    claimed = {one.node.id: one for one in engine.claim()}
    send(engine, claimed["c"], "order:1")
    engine.finish("a")
    engine.act(rerun_step, run, "a")
    assert engine.statuses(run) == {
        "a": "queued", "c": "killed(or_lost)", "b": "skipped(or_lost)", "j": "waiting", "z": "waiting",
    }  # fmt: skip
    engine.finish("a")
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)


def test_a_join_whose_satisfying_skip_is_taken_back_has_all_its_branches_again(engine):
    run = engine.submit(workflow(*RACE))
    engine.act(skip_step, run, "a")
    assert engine.statuses(run)["b"] == "skipped(or_lost)"
    engine.act(unskip_step, run, "a")
    assert engine.statuses(run) == {"a": "queued", "c": "queued", "b": "waiting", "j": "waiting", "z": "waiting"}
    engine.finish("a", "failed")
    engine.finish("c")
    engine.finish("b")
    assert engine.statuses(run)["j"] == "queued"
    engine.check(run)


def test_what_follows_such_a_branch_otherwise_waits_for_it_again(engine):
    """``d`` was skipped by a person when the branch was lost, and went back since: it counted the loss as a failure."""
    run = engine.submit(workflow(*RACE, tool("e"), tool("d", "c", "e")))
    engine.act(skip_step, run, "d")
    claimed, data = {one.node.id: one for one in engine.claim()}, b"{}"
    ended = [Report(claimed[node], "succeeded", output=data, output_sha256=digest(data)) for node in ("a", "e")]
    complete(engine.tenant.id, ended)
    assert engine.statuses(run)["c"] == "killed(or_lost)"
    engine.act(unskip_step, run, "d")
    assert engine.statuses(run)["d"] == "skipped(upstream_failed)"
    engine.act(rerun_step, run, "a")
    assert engine.statuses(run)["d"] == "waiting"
    for node in ("c", "d", "a", "j", "z"):
        engine.finish(node)
    assert engine.run(run).status == "completed"
    engine.check(run)
