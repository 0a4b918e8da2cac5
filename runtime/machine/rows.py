"""Rows as the machine holds them in memory, under the run's lock. Field order is the order of the SQL column lists."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runtime.kernel.seams import CaseNeed
from runtime.machine.law import STEP_ENDED

# Causes of ``waiting`` under which a step waits for time or a child, not for its inputs.
TIMER_CAUSES = frozenset({"timer", "retry_scheduled", "yielded", "given_back", "reconciled", "stopped"})
# Causes of ``hold`` under which a person is asked: to approve, or for an input.
ASKED = frozenset({"approval", "input"})
GOOD_SKIPS = frozenset({"user", "branch", "or_lost"})
# Kinds of steps that no workflow has: they undo an effect and check that it is undone (C4.5). Neither a pause, a cancel
# nor the run's end keeps them from working (invariant 6).
UNDO_KINDS = frozenset({"compensation", "compensation_check"})


@dataclass(slots=True)
class StepState:
    """A step row. ``read_version`` and ``read_status`` are what the compare-and-set expects."""

    id: uuid.UUID
    run_id: uuid.UUID
    node: str
    kind: str
    execution_version: int
    superseded: bool
    status: str
    cause: str | None
    version: int
    owner_epoch: int
    attempt: int
    priority: int
    pool: str
    claimable: bool
    not_before: datetime | None
    worker_session_id: uuid.UUID | None
    deps_left: int
    deps_ok: int
    deps_bskip: int
    deps_err: int
    deps_bad: int
    hold_requested: bool
    forced: bool
    choice: list[str] | None
    error: dict[str, Any] | None
    created_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    tokens: list[uuid.UUID] | None = None
    serial: uuid.UUID | None = None
    home_pool: str | None = None  # the pool it falls back to; None where its node prefers no other
    prefer_until: datetime | None = None  # while it is queued in the pool its node prefers: until when
    read_version: int = 0
    read_status: str = ""
    fresh: bool = False
    dirty: bool = False
    ended_seq: int = 0  # run_seq of the end that was told in this transaction
    waves: int = 0  # how many updates of this row are to be written before its last one
    present: str | None = None  # in this transaction only: the version its call's target was found in (C5.6)

    def __post_init__(self) -> None:
        self.read_version, self.read_status = self.version, self.status

    @property
    def ended(self) -> bool:
        return self.status in STEP_ENDED

    @property
    def undecided(self) -> bool:
        """Whether the step still waits for its inputs, perhaps under an operator's pause."""
        return (self.status == "waiting" and self.cause is None) or (self.status == "hold" and self.cause == "pause")

    @property
    def undoes(self) -> bool:
        """Whether the step undoes an effect, or checks that it is undone."""
        return self.kind in UNDO_KINDS

    def deps(self) -> list[int]:
        """Return the input counters as events carry them: left, ok, bskip, err, bad."""
        return [self.deps_left, self.deps_ok, self.deps_bskip, self.deps_err, self.deps_bad]

    @property
    def counts_ended(self) -> bool:
        """Whether one of its inputs has ended."""
        return self.deps_ok + self.deps_bskip + self.deps_err + self.deps_bad > 0

    def category(self) -> tuple[str, ...]:
        """Return the run counters this step stands in."""
        status = self.status
        if self.superseded:
            return ()
        if status == "queued" or status == "running":
            return ("n_open", "n_live")
        if status == "waiting":
            return ("n_open", "n_timer") if self.cause in TIMER_CAUSES else ("n_open",)
        if status == "succeeded" or status == "mark_successed":
            return ()
        if status == "hold":
            return ("n_open", "n_hold_approval" if self.cause == "approval" else "n_hold_external")
        if status == "unknown":
            return ("n_open", "n_unknown")
        if (status == "skipped" and self.cause in GOOD_SKIPS) or (status == "killed" and self.cause == "or_lost"):
            return ()
        return ("n_bad",)


@dataclass(slots=True)
class RunState:
    """A run row under lock, with the steps read so far, the events to write and the clock read after the lock."""

    id: uuid.UUID
    task_id: uuid.UUID
    workflow_version_id: uuid.UUID
    manifest_id: uuid.UUID
    status: str
    reason: str
    version: int
    seq: int
    priority: int
    deadline: datetime | None
    cancel_requested: bool
    paused: bool
    attention: dict[str, Any] | None
    n_steps: int
    n_open: int
    n_live: int
    n_timer: int
    n_hold_approval: int
    n_hold_external: int
    n_unknown: int
    n_bad: int
    n_open_operations: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    n_compensating: int = 0
    cancel_by: datetime | None = None
    plan: Any = None
    now: datetime | None = None
    steps: dict[str, StepState] = field(default_factory=dict)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    waves: list[list[tuple[Any, ...]]] = field(default_factory=list)  # rows as they stood before a further move
    killed: list[tuple[uuid.UUID, int, int]] = field(default_factory=list)  # running steps: id, attempt, new epoch
    trail: list[RunState] = field(default_factory=list)  # the row as it stood before its second and later moves
    read_version: int = 0
    read_seq: int = 0
    read_status: str = ""
    fresh: bool = False
    holds: list[tuple[StepState, bool]] = field(default_factory=list)  # holds for an approval that began or were left
    needs: list[CaseNeed] = field(default_factory=list)  # what a person is needed for, told when this is flushed
    woke: int = 0
    tokens: dict[uuid.UUID, list[int]] | None = None  # by limit: tokens taken (or given back), calls started
    freed: dict[uuid.UUID, int] | None = None  # by what steps are parked for: how many may go on

    def __post_init__(self) -> None:
        self.read_version, self.read_seq, self.read_status = self.version, self.seq, self.status

    @property
    def ended(self) -> bool:
        return self.finished_at is not None

    @property
    def dispatchable(self) -> bool:
        """Whether a queued step of this run may be claimed (invariant 6)."""
        return not (self.paused or self.cancel_requested or self.ended)

    def may_claim(self, step: StepState) -> bool:
        """Whether ``step``, once queued, may be claimed: nobody holds it, and the run may start it."""
        return not step.hold_requested and (self.dispatchable or step.undoes)
