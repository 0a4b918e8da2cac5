"""What follows when steps end: counters, readiness, skips, OR joins, and the run's own status.

Works on rows in memory under the runs' locks and moves them through :mod:`runtime.machine.apply`; rows it lacks are
asked for in sets through ``load``. The rules themselves are pure and live in :mod:`runtime.graph.readiness`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from runtime.graph import compensate
from runtime.graph.context import finished_outputs, unmet_success
from runtime.graph.derive import FinalStatus, RunCounts, derive_run, final_status
from runtime.graph.plan import Edge, NodePlan, Plan
from runtime.graph.readiness import TERMINAL, ancestors, contribution, decide, or_losers
from runtime.machine import law
from runtime.machine.apply import move_run, move_step, need_attention, note, request_hold, set_timer, touch
from runtime.machine.frame import Frame
from runtime.machine.needs import doubt_effect, need_case
from runtime.machine.operations import OperationState
from runtime.machine.rows import RunState, StepState

# Puts the current rows of (run, node) pairs into ``run.steps``; an empty node name asks for all of a run.
Load = Callable[[Iterable[tuple[uuid.UUID, str]]], None]

_ATTENTION_HOURS = 24
# Where a run's own output is rendered.
_WITH_OUTPUT = ("completed", "partially_completed")


def begin(run: RunState, step: StepState, node: NodePlan, *, not_before: datetime | None = None) -> None:
    """Let a waiting step whose inputs are satisfied go on: to the queue, to its timer, or into its hold."""
    if node.kind in ("approval", "input"):
        payload = {"title": node.title, "role": node.role, "expires_s": node.expires_s}
        type = f"{node.kind.upper()}_REQUIRED"
        move_step(run, step, "hold", by="engine", cause=node.kind, type=type, payload=payload)
    elif step.hold_requested:
        step.hold_requested = False
        move_step(run, step, "hold", by="engine", cause="review" if node.reviews and step.deps_err else "pause")
    elif node.event is not None:
        _await_event(run, step, node)
    elif node.kind == "wait" and node.wait_s is not None:
        assert run.now is not None
        set_timer(run, step, run.now + timedelta(seconds=node.wait_s))
    elif not_before is not None:
        set_timer(run, step, not_before)
    else:
        move_step(run, step, "queued", by="engine")


def _await_event(run: RunState, step: StepState, node: NodePlan) -> None:
    """Hold for an external event (C5.1). One that came before is found by the scheduler's duty."""
    assert run.now is not None
    due = run.now + timedelta(seconds=node.expires_s) if node.expires_s is not None else None
    payload = {"event": node.event}
    move_step(run, step, "hold", by="engine", cause="external", type="EVENT_AWAITED", payload=payload, not_before=due)


def go_on(run: RunState, step: StepState, *, reason: str | None = None) -> None:
    """Queue a step whose wait is over; one that an operator asked to hold meanwhile is held."""
    if step.hold_requested:
        step.hold_requested = False
        move_step(run, step, "hold", by="engine", cause="pause")
    else:
        move_step(run, step, "queued", by="engine", reason=reason)


def propagate(runs: dict[uuid.UUID, RunState], ended: list[tuple[RunState, StepState]], load: Load) -> None:
    """Follow every step in ``ended`` (terminal now) through the graph until nothing more follows."""
    frontier = [(run, step) for run, step in ended if step.status in TERMINAL and not step.superseded]
    while frontier:
        missing = {
            (run.id, target)
            for run, step in frontier
            for target, _edge in run.plan.nodes[step.node].successors
            if target not in run.steps
        }
        if missing:
            load(missing)
        following: list[tuple[RunState, StepState]] = []
        for run, step in frontier:
            _follow(run, step, following, load)
        frontier = following


def _follow(run: RunState, step: StepState, following: list[tuple[RunState, StepState]], load: Load) -> None:
    plan: Plan = run.plan
    for target, edge in plan.nodes[step.node].successors:
        successor = run.steps[target]
        node = plan.nodes[target]
        # An OR join that has fired counts no more, whatever it waits for now; queries.rebuild folds by the same rule.
        fired = node.join_mode == "any" and successor.deps_ok > 0
        if not fired and step.ended_seq < successor.ended_seq:
            # An OR join ended it after this step's end was told: by the events, the step still counted for it.
            _count(run, step, successor, edge)
            continue
        timed_out = node.join_timeout_s is not None and successor.deps_left == 0
        if fired or timed_out or (successor.status != "waiting" and successor.status != "hold"):
            if (node.join_mode == "any" or timed_out) and step.status == "succeeded":
                what = "OR join" if node.join_mode == "any" else "join"
                note(run, "LATE_RESULT", step, reason=f"{what} {target} had fired; nobody uses this result")
            continue
        _count(run, step, successor, edge)
        resolve(run, successor, following, load)


def time_out(run: RunState, step: StepState, load: Load) -> list[tuple[RunState, StepState]]:
    """Decide a join whose time is over by the inputs that are there; the others count as failed (B3.1).

    They go on; what they still bring is noted as late. Returns what ended thereby, for :func:`propagate`.
    """
    before = run.plan.nodes[step.node].predecessors
    load([(run.id, source) for source, _edge in before])
    missing = [(source, edge) for source, edge in before if run.steps[source].status not in TERMINAL]
    for _source, edge in missing:
        kind = contribution("failed", None, edge)
        setattr(step, f"deps_{kind}", getattr(step, f"deps_{kind}") + 1)
    step.deps_left, step.not_before = 0, None
    touch(run, step)
    names = [source for source, _edge in missing]
    note(run, "JOIN_TIMED_OUT", step, payload={"deps": step.deps(), "missing": names})
    ended: list[tuple[RunState, StepState]] = []
    resolve(run, step, ended, load)
    return ended


def _count(run: RunState, step: StepState, successor: StepState, edge: Edge) -> None:
    """Count an ended step in the counters of one that follows it."""
    chosen = not edge.case or successor.node in run.plan.chosen(step.node, step.choice)
    kind = contribution(step.status, step.cause, edge, chosen)
    successor.deps_left -= 1
    setattr(successor, f"deps_{kind}", getattr(successor, f"deps_{kind}") + 1)
    touch(run, successor)
    if kind == "err" and edge.on_failure == "manual_review" and not successor.hold_requested and successor.undecided:
        # The failure is passed on, but a person looks before anything follows from it: released, the node starts.
        request_hold(run, successor, True, actor=None, reason=f"{step.node} ended badly")


def resolve(
    run: RunState,
    step: StepState,
    following: list[tuple[RunState, StepState]],
    load: Load,
    *,
    not_before: datetime | None = None,
) -> None:
    """Decide a waiting step by its counters; what ends thereby is appended to ``following``.

    One whose inputs are there goes on, at ``not_before`` where its start is planned. One that waits for more has its
    time limit from the first input that has ended, however it came to wait: fresh by a rerun, or released.
    """
    if step.status != "waiting" or step.cause is not None:
        return
    node = run.plan.nodes[step.node]
    decision = decide(node, step.deps_left, step.deps_ok, step.deps_bskip, step.deps_err, step.deps_bad)
    if decision is None:
        if node.join_timeout_s is not None and step.not_before is None and step.counts_ended:
            assert run.now is not None
            set_timer(run, step, run.now + timedelta(seconds=node.join_timeout_s), cause=None)
    elif decision == "ready":
        begin(run, step, node, not_before=not_before)
        if node.join_mode == "any" and step.deps_left > 0:
            _end_losers(run, step, following, load)
    else:
        move_step(run, step, "skipped", by="engine", cause=decision[1])
        following.append((run, step))


def _end_losers(run: RunState, join: StepState, following: list[tuple[RunState, StepState]], load: Load) -> None:
    before = ancestors(run.plan, join.node)
    load((run.id, node) for node in before if node not in run.steps)
    for node in or_losers(run.plan, join.node, {name: step.status for name, step in run.steps.items()}):
        loser = run.steps[node]
        running = loser.status == "running"
        move_step(
            run,
            loser,
            "killed" if running else "skipped",
            by="engine",
            cause="or_lost",
            reason=f"OR join {join.node} fired",
            fence=running,
        )
        following.append((run, loser))


def settle(
    frame: Frame, runs: Iterable[RunState] | None = None, *, actor: str | None = None, reason: str | None = None
) -> None:
    """Derive the status of each run (of the frame) and move it there; ``actor`` and ``reason`` go with the move.

    Completed means checked: where the workflow declares a success condition that does not hold, the run has failed.
    """
    moves = [_due(frame, run, reason) for run in (frame.runs.values() if runs is None else runs)]
    # All outputs at once: what they store is locked in one order.
    outputs = finished_outputs(frame, [run for run, to, _why in filter(None, moves) if to in _WITH_OUTPUT])
    for run, target, why in filter(None, moves):
        _move_on(run, target, outputs.get(run.id, {}), actor=actor, why=why)
        if target == "failed":
            need_case(run, "failed_with_effects", why or "The run failed.")


def _due(frame: Frame, run: RunState, reason: str | None) -> tuple[RunState, str, str | None] | None:
    """Return the move that is due of a run: where to and why; None when it stays."""
    if run.n_compensating:
        compensate.follow(frame, run, attention)
    if run.ended:
        return None
    if run.n_open == 0:
        compensate.begin_due(frame, run)
    target = derive_run(_counts(run), partial(_final, run, frame.load))
    # A run whose first steps are planned for later stays accepted: nothing of it was queued yet.
    planned = run.status == "accepted" and target == "waiting_tool" and not (run.n_unknown or run.n_open_operations)
    if target == run.status or planned:
        return None
    if run.status == "compensating":
        target = _after_undoing(run, target)
    if target == "needs_attention" and run.attention is None:
        attention(run, "An external effect is not settled.")
    why = reason
    if target in _WITH_OUTPUT and (unmet := unmet_success(frame, run)) is not None:
        target, why = "failed", unmet
    if why is None and target in ("cancelled", "failed"):
        why = run.reason or ("cancelled" if target == "cancelled" else None)
    if why is None and target == "failed":
        why = "A step ended badly and nothing handled it."
    return run, target, why


def _move_on(run: RunState, target: str, output: dict[str, Any], *, actor: str | None, why: str | None) -> None:
    by = "engine"
    if run.status == "needs_attention":
        # Only a repair takes that back: the first move out of it is the repair's, what follows is derived again.
        by = "reconciler"
        if len(law.run_path(run.status, target)) > 1:
            move_run(run, "running", by=by, actor=actor, reason=why)
            by = "engine"
    if run.status != target:
        move_run(run, target, by=by, actor=actor, reason=why, **output)


def _after_undoing(run: RunState, target: str) -> str:
    """Return where a run goes whose effects were undone: it is never completed, and work still open is a person's."""
    if target in ("completed", "partially_completed"):
        return "failed" if run.reason == "deadline" else "partially_completed"
    return target if law.run_path("compensating", target) else "needs_attention"


def attention(run: RunState, evidence: str, owner: str | None = None) -> dict[str, object]:
    """Give a run that needs a person owner, evidence and due date (invariant 7), and return them.

    ``owner`` is who answers for the tool it is about; None: those on call.
    """
    assert run.now is not None
    due = run.now + timedelta(hours=_ATTENTION_HOURS)
    needed: dict[str, object] = {"owner": owner or "oncall", "evidence": evidence, "due": due.isoformat()}
    need_attention(run, needed)
    need_case(run, "run_attention", evidence)
    return needed


def park(run: RunState, step: StepState, why: str) -> None:
    """Let a waiting step hold until a person has looked; nothing of it is skipped."""
    move_step(run, step, "hold", by="engine", cause="recovery", reason=why)
    need_case(run, "version_mismatch", why, step=step)
    if run.attention is None:
        attention(run, f"Step {step.node} cannot go on: {why}")


def own_the_doubt(
    run: RunState, operation: OperationState, why: str, *, askable: bool = False, owner: str | None = None
) -> None:
    """Give an operation that became unknown a next query time, or its run an owner (invariant 7).

    A tool that can be asked is asked at once; for every other one ``why`` is told to a person: to who answers for the
    tool, where its contract names somebody.
    """
    if askable or operation.recovery == "query":
        operation.next_query_at = run.now
        return
    evidence = f"Operation {operation.business_key}: {why}."
    doubt_effect(run, operation, evidence)
    if run.attention is None and not run.ended:
        attention(run, evidence, owner)


def _final(run: RunState, load: Load) -> FinalStatus:
    if any(name not in run.steps for name in run.plan.nodes):
        load([(run.id, "")])
    statuses = {name: step.status for name, step in run.steps.items()}
    causes = {name: step.cause for name, step in run.steps.items()}
    return final_status(run.plan, statuses, causes)


def _counts(run: RunState) -> RunCounts:
    return RunCounts(
        open_steps=run.n_open,
        live=run.n_live,
        timers=run.n_timer,
        hold_approval=run.n_hold_approval,
        hold_external=run.n_hold_external,
        unknown=run.n_unknown,
        troubled=run.n_bad,
        open_operations=run.n_open_operations,
        started=run.started_at is not None or run.status not in ("accepted", "queued"),
        cancelling=run.cancel_requested,
        compensating=run.n_compensating,
        attention=run.attention is not None,
        paused=run.paused,
    )
