"""Folding a run's events from nothing (C1.9): what the rows must be, told by the ledger alone.

Written apart from the machine on purpose: it is the second opinion on what the machine wrote. It knows the workflow's
graph, which is immutable, and nothing of the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from runtime.graph.plan import Plan
from runtime.graph.readiness import TERMINAL, contribution

OPEN_OPERATIONS = (
    "intended",
    "sent",
    "unknown",
    "needs_human",
    "partially_applied",
    "compensating",
    "compensation_failed",
)
TIMERS = ("timer", "retry_scheduled", "yielded", "given_back", "reconciled", "stopped")
RUN_ENDED = ("completed", "partially_completed", "failed", "cancelled")


@dataclass(slots=True)
class FoldedStep:
    """A step row as the events tell it; ``id`` is None while no event has named it."""

    node: str
    execution_version: int = 1
    id: uuid.UUID | None = None
    superseded: bool = False
    status: str = "waiting"
    cause: str | None = None
    version: int = 1
    owner_epoch: int = 0
    attempt: int = 0
    claimable: bool = True
    not_before: datetime | None = None
    worker_session_id: uuid.UUID | None = None
    deps_left: int = 0
    deps_ok: int = 0
    deps_bskip: int = 0
    deps_err: int = 0
    deps_bad: int = 0
    hold_requested: bool = False
    forced: bool = False
    choice: list[str] | None = None
    error: dict[str, Any] | None = None
    created_at: datetime | None = None
    queued_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    def set_deps(self, deps: list[int]) -> None:
        """Take the counters an event carries."""
        self.deps_left, self.deps_ok, self.deps_bskip, self.deps_err, self.deps_bad = deps


@dataclass(slots=True)
class FoldedRun:
    """A run row as the events tell it, with every execution version of its steps."""

    plan: Plan
    status: str = ""
    reason: str = ""
    version: int = 0
    seq: int = 0
    cancel_requested: bool = False
    paused: bool = False
    attention: dict[str, Any] | None = None
    n_open_operations: int = 0
    n_compensating: int = 0
    cancel_by: datetime | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    steps: dict[tuple[str, int], FoldedStep] = field(default_factory=dict)
    current: dict[str, FoldedStep] = field(default_factory=dict)
    operations: dict[str, str] = field(default_factory=dict)  # id → the status this run's events left it in
    problems: list[str] = field(default_factory=list)

    def take(self, event: Mapping[str, Any]) -> None:
        """Apply one event; they come in the order of their seq."""
        if event["seq"] != self.seq + 1:
            self.problems.append(f"run_seq: {event['seq']} follows {self.seq}")
        self.seq = event["seq"]
        type, payload = event["type"], event["payload"] or {}
        if type.startswith("OPERATION_"):
            self._operation(event)
        if type == "RUN_CREATED":
            self._created(event)
        elif type == "ATTENTION_REQUIRED":
            self.attention = payload["attention"]
        elif type == "COMPENSATION_PLANNED":
            self._planned(event)
        elif type == "ATTENTION_RELEASED":
            self.attention = None
        elif type in ("STEP_RERUN", "STEP_RENEWED"):
            self._renewed(event, payload)
        elif event["node"] is not None:
            self._step(event, payload)
        elif not type.startswith("OPERATION_"):
            self._run(event)

    def counts(self) -> dict[str, int]:
        """Return the run's counters over the current rows."""
        n = dict.fromkeys(
            ("n_steps", "n_open", "n_live", "n_timer", "n_hold_approval", "n_hold_external", "n_unknown", "n_bad"), 0
        )
        for step in self.current.values():
            n["n_steps"] += 1
            n["n_open"] += step.status not in TERMINAL
            n["n_live"] += step.status in ("queued", "running")
            n["n_timer"] += step.status == "waiting" and step.cause in TIMERS
            n["n_hold_approval"] += step.status == "hold" and step.cause == "approval"
            n["n_hold_external"] += step.status == "hold" and step.cause != "approval"
            n["n_unknown"] += step.status == "unknown"
            n["n_bad"] += _bad(step)
        return {**n, "n_open_operations": self.n_open_operations, "n_compensating": self.n_compensating}

    # -- events of the run

    def _created(self, event: Mapping[str, Any]) -> None:
        self.status, self.version, self.created_at = event["to_status"], event["version"], event["occurred_at"]
        for name, node in self.plan.nodes.items():
            step = FoldedStep(name, created_at=self.created_at, deps_left=node.n_deps)
            self.steps[name, 1] = self.current[name] = step

    def _run(self, event: Mapping[str, Any]) -> None:
        self.version = event["version"]
        type, to, at = event["type"], event["to_status"], event["occurred_at"]
        if type == "CANCEL_REQUESTED":
            self.cancel_requested, self.reason = True, (event["reason"] or "")[:200]
            by = (event["payload"] or {}).get("by")
            self.cancel_by = datetime.fromisoformat(by) if by else None
        elif type == "DEADLINE_PASSED":
            self.reason = "deadline"
        elif type in ("PAUSE_REQUESTED", "RESUME_REQUESTED"):
            self.paused = type == "PAUSE_REQUESTED"
            for step in self.current.values():
                if step.status == "queued":
                    step.claimable = self._may_claim(step)
        elif to is not None:
            before, self.status = self.status, to
            if event["from_status"] != before:
                self.problems.append(f"event {event['seq']}: from {event['from_status']}, the run was {before}")
            if to == "running" and self.started_at is None:
                self.started_at = at
            if to in RUN_ENDED:
                self.finished_at, self.reason = at, (event["reason"] or "")[:200]

    def _may_claim(self, step: FoldedStep) -> bool:
        """Whether a queued step may start; one that is no node of the graph undoes an effect, and always may."""
        stops = self.paused or self.cancel_requested or self.finished_at is not None
        return not step.hold_requested and (not stops or step.node not in self.plan.nodes)

    def _operation(self, event: Mapping[str, Any]) -> None:
        before, after = event["from_status"], event["to_status"]
        self.n_open_operations += (after in OPEN_OPERATIONS) - (before in OPEN_OPERATIONS)
        operation_id = (event["payload"] or {}).get("operation_id")
        if operation_id and after is not None:  # a question that was asked of the tool moves nothing
            self.operations[operation_id] = after
        self.n_compensating += (after == "compensating") - (before == "compensating")

    # -- events of a step

    def _planned(self, event: Mapping[str, Any]) -> None:
        step = FoldedStep(
            event["node"], event["execution_version"], id=event["step_id"], created_at=event["occurred_at"]
        )
        self.steps[step.node, step.execution_version] = self.current[step.node] = step

    def _renewed(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        old = self.current[event["node"]]
        old.superseded = True
        if old.id is not None and str(old.id) != payload["supersedes"]:
            self.problems.append(f"event {event['seq']}: supersedes {payload['supersedes']}, current was {old.id}")
        old.id = uuid.UUID(payload["supersedes"])
        step = FoldedStep(
            event["node"],
            event["execution_version"],
            id=event["step_id"],
            owner_epoch=event["owner_epoch"],
            version=event["version"],
            created_at=event["occurred_at"],
        )
        step.set_deps(payload["deps"])
        self.steps[step.node, step.execution_version] = self.current[step.node] = step

    def _step(self, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        step = self.steps.get((event["node"], event["execution_version"]))
        if step is None:
            self.problems.append(f"event {event['seq']}: no step {event['node']}@{event['execution_version']}")
            return
        if step.id not in (None, event["step_id"]):
            self.problems.append(f"event {event['seq']}: step {step.node} was {step.id}, is {event['step_id']}")
        step.id = event["step_id"]
        type = event["type"]
        if type.startswith("OPERATION_"):
            return
        if "deps" in payload:
            step.set_deps(payload["deps"])
        if type in ("HOLD_REQUESTED", "HOLD_WITHDRAWN"):
            step.hold_requested = type == "HOLD_REQUESTED"
            if step.status == "queued":
                step.claimable = self._may_claim(step)
        elif type == "JOIN_TIMED_OUT" or (type == "STEP_RECOUNTED" and _has_no_time(step)):
            step.not_before = None
        elif type == "TIMER_SET":
            step.cause, step.not_before = event["cause"], datetime.fromisoformat(payload["not_before"])
        elif event["to_status"] is not None:
            self._move(step, event, payload)
        step.version, step.attempt, step.owner_epoch = event["version"], event["attempt"], event["owner_epoch"]

    def _move(self, step: FoldedStep, event: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        if event["from_status"] != step.status or step.superseded:
            was = f"{step.status}{', superseded' if step.superseded else ''}"
            self.problems.append(f"event {event['seq']}: {step.node} from {event['from_status']}, it was {was}")
        before, to, at = step.status, event["to_status"], event["occurred_at"]
        step.status, step.cause = to, event["cause"]
        timer, worker = payload.get("not_before"), payload.get("worker")
        step.not_before = datetime.fromisoformat(timer) if timer else None
        step.worker_session_id = uuid.UUID(worker) if worker and to == "running" else None
        if to == "running":
            step.started_at, step.error = at, None
        elif to == "queued":
            step.queued_at = at
            step.claimable = self._may_claim(step)
        else:
            step.error = payload.get("error")
            step.finished_at = at if to in TERMINAL else None
            if to in TERMINAL or (to == "hold" and step.cause in ("pause", "review")):
                step.hold_requested = False
            step.forced = step.forced or to == "mark_successed"
            if to == "succeeded":
                step.choice = payload.get("choice")
        if to in TERMINAL and before not in TERMINAL:
            self._contribute(step)

    def _contribute(self, step: FoldedStep) -> None:
        """Count an end for every successor that still counts; an OR join that was satisfied counts no more."""
        for target, edge in self.plan.nodes[step.node].successors:
            successor = self.current[target]
            if successor.status not in ("waiting", "hold"):
                continue
            if self.plan.nodes[target].join_mode == "any" and successor.deps_ok > 0:
                continue
            if successor.deps_left == 0:  # its time was over before
                continue
            chosen = not edge.case or target in self.plan.chosen(step.node, step.choice)
            name = f"deps_{contribution(step.status, step.cause, edge, chosen)}"
            setattr(successor, name, getattr(successor, name) + 1)
            successor.deps_left -= 1


def _has_no_time(step: FoldedStep) -> bool:
    """Whether none of the inputs it waits for has ended: a join's time begins with the first."""
    return step.cause is None and not (step.deps_ok or step.deps_bskip or step.deps_err or step.deps_bad)


def _bad(step: FoldedStep) -> bool:
    if step.status == "killed":
        return step.cause != "or_lost"
    if step.status == "skipped":
        return step.cause not in ("user", "branch", "or_lost")
    return step.status == "failed"
