"""Requests follow holds: written with the hold, closed when it is left, in the very same transaction (A7.1)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from approvals.law import RUN_CANCELLED, RUN_ENDED, RUN_LATE, STEP_FORCED, STEP_SKIPPED
from approvals.policies import under_policy
from approvals.rendering import render
from approvals.terms import terms_of
from approvals.writing import About, write_request
from runtime.graph.plan import NodePlan
from runtime.kernel.errors import QuarterdeckError
from runtime.kernel.seams import HoldNews
from runtime.machine.frame import Frame
from runtime.machine.rows import ASKED, RunState, StepState
from runtime.store.tx import Tx

_WHY_LEFT = {"user": STEP_SKIPPED, "cancelled": RUN_CANCELLED, "deadline": RUN_LATE}


def on_holds(frame: Frame, news: HoldNews) -> None:
    """Ask for what began to hold; close what nobody has to decide any more."""
    if news.left:
        _close_left(frame.tx, news.left)
    if news.stopping:
        void_grants(frame.tx, news.stopping)
    for run, step in news.began:
        # It may have left again in the same unit of work.
        if step.status == "hold" and step.cause in ASKED:
            _ask(frame.tx, run, step)


def _ask(tx: Tx, run: RunState, step: StepState) -> None:
    node: NodePlan = run.plan.nodes[step.node]
    rendered = render(tx, run, step)
    assert run.now is not None
    about = About(
        kind={"approval": "node", "input": "input"}.get(node.kind, "call"),
        run_id=run.id,
        task_id=run.task_id,
        step_id=step.id,
        node=step.node,
        execution_version=step.execution_version,
        editor_id=rendered.editor_id,
    )
    terms = terms_of(tx, run, node)
    try:
        terms = under_policy(tx, rendered, terms, run.plan.name, about.kind, now=run.now)
    except QuarterdeckError as problem:
        rendered.spoil(problem.detail)
    write_request(tx, about, terms, rendered, run.now)


def _close_left(tx: Tx, left: Iterable[tuple[RunState, StepState]]) -> None:
    """Cancel what is still pending about steps that hold no more; a decided request is in another state by now."""
    by_reason: dict[str, list[uuid.UUID]] = {}
    for _run, step in left:
        if step.status not in ("queued", "waiting"):
            by_reason.setdefault(_why(step), []).append(step.id)
    for reason, steps in by_reason.items():
        ids = [row[0] for row in tx.rows("approvals_of_steps", (steps,))]
        if ids:
            tx.send("approval_close", {"to": "cancelled", "from": "pending", "reason": reason, "ids": ids})


def _why(step: StepState) -> str:
    if step.status == "mark_successed":
        return STEP_FORCED
    return _WHY_LEFT.get(step.cause or "", f"step {step.status}")


def void_grants(tx: Tx, runs: Iterable[RunState]) -> None:
    """Void what was approved and not used in runs in which nothing starts any more."""
    for cancelled in (True, False):
        ids = [run.id for run in runs if run.cancel_requested == cancelled]
        found = [row[0] for row in tx.rows("approvals_granted_of_runs", (ids,))] if ids else []
        if found:
            reason = RUN_CANCELLED if cancelled else RUN_ENDED
            tx.send("approval_close", {"to": "voided", "from": "approved", "reason": reason, "ids": found})


def request_of_message(payload: dict[str, Any]) -> uuid.UUID:
    """Return the request that a message in the outbox is about."""
    return uuid.UUID(payload["request_id"])
