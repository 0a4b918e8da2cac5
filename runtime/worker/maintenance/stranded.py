"""Accepted work that nothing would ever move: found, put back on its way, told (C2.6).

Submitting and completing write a run, its steps and their events in one transaction, so this finds nothing, unless rows
were damaged or restored in part. It trusts the workflow's graph and the ends that the steps tell of, not the counters.
"""

from __future__ import annotations

import uuid

import structlog

from runtime.actions.base import WORK_CHANNEL
from runtime.actions.starting import new_step
from runtime.graph.plans import plan_of
from runtime.graph.propagate import attention, propagate, resolve, settle
from runtime.graph.rewind import recount
from runtime.kernel.conf import conf
from runtime.machine.apply import add_step, note, touch
from runtime.machine.frame import Frame
from runtime.machine.needs import need_case
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.alerts import STRANDED, Finding, open_alert
from runtime.worker.maintenance.each import LOCK_TIMEOUT_MS, attempt_due

log = structlog.get_logger(__name__)

UNFIT = "Nothing can move this run any more: its steps do not fit its workflow."
_BATCH = 100
_COUNTERS = ("n_steps", "n_open", "n_live", "n_timer", "n_hold_approval", "n_hold_external", "n_unknown", "n_bad")


def mend_stranded() -> int:
    """Look for stranded runs and mend them; returns how many. What cannot be mended gets an owner."""
    return attempt_due("stranded", "stranded_runs", _BATCH, _mend, (conf().queue_old_seconds,))


def _mend(tenant_id: uuid.UUID, run_id: uuid.UUID) -> int:
    with tenant_tx(tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        frame = Frame(tx, plan_of)
        run = frame.run(run_id)
        frame.load([(run_id, "")])
        if run.ended or not run.dispatchable or _moves(run) or tx.rows("blocked_of_run", (run_id,)):
            return 0
        found = _put_right(run)
        note(run, "SCHEDULE_MENDED", reason="nothing could have moved the run", payload={"found": found})
        ended: list[tuple[RunState, StepState]] = []
        for step in [one for one in run.steps.values() if one.node in run.plan.nodes]:
            resolve(run, step, ended, frame.load)
        propagate(frame.runs, ended, frame.load)
        settle(frame)
        if not run.ended and not _moves(run) and run.attention is None:
            need_case(run, "stuck", UNFIT)
            attention(run, UNFIT)
            settle(frame)
        frame.flush()
        tx.notify(WORK_CHANNEL)
        finding = Finding("stranded_runs", "critical", "Runs that had come to a standstill and were mended")
        finding.subjects.append(
            {"kind": "run", "id": str(run_id), "run_id": str(run_id), "label": "; ".join(found)[:200]}
        )
        open_alert(tx, f"{STRANDED}{run_id}", finding)
    log.error("a stranded run was mended", run=str(run_id), found=found)
    return 1


def _moves(run: RunState) -> bool:
    """Say whether something can move the run: a claim, a worker, a person, a clock, a reconciliation."""
    return any(
        step.status in ("running", "hold", "unknown")
        or (step.status == "queued" and (step.claimable or step.hold_requested))
        or (step.status == "waiting" and step.not_before is not None)
        for step in run.steps.values()
    )


def _put_right(run: RunState) -> list[str]:
    """Bring rows back in line with the graph; return what was found, in words."""
    found = []
    for node in run.plan.nodes.values():
        if node.id not in run.steps:
            step = new_step(run, node, "default", run.priority)
            step.created_at = run.created_at
            add_step(run, step)
            found.append(f"no step {node.id}")
    for step in run.steps.values():
        if step.status == "queued" and not step.claimable and not step.hold_requested:
            step.claimable = True
            run.woke += 1
            touch(run, step)
            found.append(f"step {step.node} was parked without a reason")
        elif step.undecided and step.node in run.plan.nodes:
            before = step.deps()
            recount(run, step.node)
            if step.deps() != before:
                found.append(f"step {step.node} counted its inputs wrongly")
            elif step.deps_left == 0:
                found.append(f"step {step.node} was not started")
    counted = dict.fromkeys(_COUNTERS, 0)
    for step in run.steps.values():
        counted["n_steps"] += 1
        for name in step.category():
            counted[name] += 1
    for name, count in counted.items():
        if getattr(run, name) != count:
            found.append(f"{name} was {getattr(run, name)}, is {count}")
            setattr(run, name, count)
    return found or ["its status was not derived"]
