"""Verbs on a step: each allowed, refused by the law, stale, not permitted, and another tenant's (A5.1, A9.7)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.actions.steps import (
    force_step,
    hold_step,
    kill_step,
    release_step,
    rerun_step,
    skip_step,
    unskip_step,
)
from runtime.kernel.errors import BadInput, Conflict, FinishedRun, MoveRefused, NotFound, PermissionDenied, Stale
from runtime.kernel.ids import uuid7
from runtime.models import AuditEntry
from runtime.store.tx import tenant_tx
from tests.machine import law_by_hand as hand
from tests.support.actors import member, outsider
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A5.1", "A9.7"), pytest.mark.django_db(transaction=True)]

VERBS = {
    "skip": skip_step,
    "unskip": unskip_step,
    "hold": hold_step,
    "release": release_step,
    "kill": kill_step,
    "rerun": rerun_step,
    "force": force_step,
}
# Written out from the design: which verb is there for a step in which state, and where it leads.
ALLOWED = {
    ("waiting", "skip"): "skipped(user)",
    ("queued", "skip"): "skipped(user)",
    ("hold", "skip"): "skipped(user)",
    ("skipped", "unskip"): "queued",
    ("waiting", "hold"): "hold(pause)",
    ("queued", "hold"): "queued",
    ("running", "hold"): "running",
    ("hold", "release"): "waiting",
    ("queued", "kill"): "killed",
    ("running", "kill"): "killed",
    ("unknown", "kill"): "killed",
    ("succeeded", "rerun"): "queued",
    ("failed", "rerun"): "queued",
    ("killed", "rerun"): "queued",
    ("mark_successed", "rerun"): "queued",  # by a fresh row: the follow-up is a new execution version
    **{(s, "force"): "mark_successed" for s in hand.STATUSES if s not in ("succeeded", "mark_successed")},
}


def bring(engine: Engine, status: str) -> uuid.UUID:
    """Return a run whose step ``x`` is in ``status`` while the run is open (``y`` stays queued or running)."""
    after = ["before"] if status in ("waiting", "hold") else []
    run = engine.submit(workflow(tool("y"), tool("before"), tool("x", *after)))
    if status == "hold":
        engine.act(hold_step, run, "x")
    elif status == "skipped":
        engine.act(skip_step, run, "x")
    elif status == "mark_successed":
        engine.act(force_step, run, "x")
    elif status not in ("waiting", "queued"):
        engine.claim()
        [claimed] = [one for one in engine.claimed.values() if one.run_id == run and one.node.id == "x"]
        if status == "unknown":
            send(engine, claimed, f"key:{run}")
            engine.report(claimed, "unknown", operation_status="unknown")
        elif status == "killed":
            engine.act(kill_step, run, "x")
        elif status != "running":
            engine.report(claimed, status)
    assert engine.step(run, "x").status == status
    return run


@pytest.mark.parametrize("status", hand.STATUSES)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_in_every_state(engine, status, verb):
    run = bring(engine, status)
    before, events = engine.step(run, "x"), engine.types(run)
    if (status, verb) not in ALLOWED:
        with pytest.raises((MoveRefused, Conflict)) as refusal:
            engine.act(VERBS[verb], run, "x")
        assert refusal.value.http_status == 409
        after = engine.step(run, "x")
        assert (after.id, after.status, after.version) == (before.id, before.status, before.version)
        assert engine.types(run) == events
    else:
        answer = engine.act(VERBS[verb], run, "x")
        assert engine.statuses(run)["x"] == ALLOWED[status, verb]
        assert answer["status"] == engine.step(run, "x").status
        assert answer["version"] == engine.step(run, "x").version
        with tenant_tx(engine.tenant.id):
            entries = AuditEntry.objects.filter(run_id=run, verb=f"step.{verb}")
            assert [(entry.actor, entry.reason) for entry in entries][-1] == ("service:test", "because")
    engine.check(run)


@pytest.mark.parametrize("verb", VERBS)
def test_who_may_not_act_does_not(engine, other_tenant, verb):
    status = next(s for s, v in ALLOWED if v == verb)
    run = bring(engine, status)
    step, events = engine.step(run, "x"), engine.types(run)
    call: dict[str, Any] = {"step_id": step.id, "expected_version": step.version, "reason": "because"}
    for actor in (outsider(engine.tenant), member(engine.tenant, "viewer"), member(engine.tenant, "finance")):
        with pytest.raises(PermissionDenied):
            VERBS[verb](actor=actor, **call)
    with pytest.raises(NotFound):
        VERBS[verb](actor=member(other_tenant, "admin"), **call)
    with pytest.raises(NotFound):
        VERBS[verb](actor=engine.actor, **{**call, "step_id": uuid7()})
    with pytest.raises(Stale) as stale:
        VERBS[verb](actor=engine.actor, **{**call, "expected_version": step.version + 1})
    assert stale.value.extra == {"current_status": status, "current_version": step.version}
    for reason in ("x" * 2001, "nul\x00", "half \ud800"):
        with pytest.raises(BadInput):
            VERBS[verb](actor=engine.actor, **{**call, "reason": reason})
    assert engine.types(run) == events
    assert engine.step(run, "x").version == step.version


def test_only_an_admin_forces(engine):
    run = bring(engine, "failed")
    step = engine.step(run, "x")
    for role in ("oncall", "integrator", "approver", "verifier"):
        with pytest.raises(PermissionDenied):
            force_step(
                actor=member(engine.tenant, role), step_id=step.id, expected_version=step.version, reason="please"
            )
    with pytest.raises(BadInput, match="reason is required"):
        engine.act(force_step, run, "x", reason="  ")


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"rerun", "force"}))
def test_no_verb_acts_on_an_ended_run(engine, verb):
    run = engine.submit(workflow(tool("x")))
    engine.finish("x", "failed")
    with pytest.raises(FinishedRun):
        engine.act(VERBS[verb], run, "x")


def test_an_older_execution_version_is_read_only(engine):
    run = bring(engine, "failed")
    old = engine.step(run, "x")
    engine.act(rerun_step, run, "x")
    for verb in VERBS.values():
        with pytest.raises(MoveRefused, match="newer execution version") as refusal:
            verb(actor=engine.actor, step_id=old.id, expected_version=old.version, reason="because")
        assert refusal.value.extra["current_step_id"] == str(engine.step(run, "x").id)
    assert engine.step(run, "x", 1).status == "failed"
