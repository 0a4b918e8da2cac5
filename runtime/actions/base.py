"""What every action shares: the actor's transaction with bounded lock waits, and the stale answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Stale
from runtime.kernel.unseen import is_blank
from runtime.machine.apply import CONTROL_CHANNEL as CONTROL_CHANNEL
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState
from runtime.store.tx import tenant_tx

WORK_CHANNEL = "qd_work"
LOCK_TIMEOUT_MS = 2000
MAX_REASON = 2000


@contextmanager
def frame(actor: Actor, *, lock_timeout_ms: int | None = None) -> Iterator[Frame]:
    """Open the actor's tenant transaction; waits for locks are bounded, by two seconds if not told (engine.md 1)."""
    if lock_timeout_ms is None:
        lock_timeout_ms = LOCK_TIMEOUT_MS
    with tenant_tx(actor.tenant_id, lock_timeout_ms=lock_timeout_ms) as tx:
        yield Frame(tx, plan_of)


def check_reason(reason: str, *, required: bool = False) -> str:
    """Return the reason, trimmed; one that shows nothing is none. Raises BadInput where it is missing, too long or
    not storable.
    """
    text = reason.strip()
    if "\x00" not in text and is_blank(text):
        text = ""
    if required and not text:
        raise BadInput("A reason is required.", where="/reason", remediation="Say why, in one sentence.")
    if len(text) > MAX_REASON or "\x00" in text:
        raise BadInput(
            f"A reason has at most {MAX_REASON} characters and no NUL.", where="/reason", remediation="Shorten it."
        )
    try:
        text.encode()
    except UnicodeEncodeError as problem:
        raise BadInput("The reason is not valid Unicode.", where="/reason", remediation="Type it again.") from problem
    return text


def check_step_version(run: RunState, step: StepState, expected: int | None) -> None:
    """Raise Stale, telling what is there now, when the caller was shown another version of the step."""
    if expected is not None and expected != step.version:
        raise Stale(
            f"Step {step.node} is {step.status} in version {step.version}; you were shown version {expected}.",
            run_id=run.id,
            step_id=step.id,
            current_status=step.status,
            current_version=step.version,
        )


def check_run_version(run: RunState, expected: int | None) -> None:
    """Raise Stale when the caller was shown another version of the run."""
    if expected is not None and expected != run.version:
        raise Stale(
            f"The run is {run.status} in version {run.version}; you were shown version {expected}.",
            run_id=run.id,
            current_status=run.status,
            current_version=run.version,
        )


def step_answer(run: RunState, step: StepState) -> dict[str, Any]:
    """Return what a step verb answers with."""
    return {
        "step_id": str(step.id),
        "run_id": str(run.id),
        "node": step.node,
        "status": step.status,
        "cause": step.cause,
        "version": step.version,
        "execution_version": step.execution_version,
        "owner_epoch": step.owner_epoch,
        "hold_requested": step.hold_requested,
        "forced": step.forced,
        "run_status": run.status,
        "run_version": run.version,
    }


def run_answer(run: RunState) -> dict[str, Any]:
    """Return what a run verb answers with."""
    return {"run_id": str(run.id), "status": run.status, "version": run.version, "run_seq": run.seq}
