"""What passes between the parts of a worker: a claimed step, and the report of what became of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

import orjson

from runtime.graph.plan import NodePlan, Plan

# The end of a stop, or a signature, wakes the steps that wait for it. Until then they rest: a timer looks so seldom
# whether they still wait, and queues none that does.
REST_SECONDS = 86_400.0
UNREAD = "target_unread"  # the code of a failure to read the target's version: nothing was sent


@dataclass(slots=True)
class TaskFacts:
    """What expressions may read of the task; ``input`` are the canonical bytes, parsed when first asked for."""

    id: uuid.UUID
    input: bytes
    name: str
    goal: str
    data_time: datetime | None
    retry: dict[str, Any]
    created_by: str
    rerun_of: uuid.UUID | None = None
    adopts: list[str] | None = None
    scope: dict[str, Any] = field(default_factory=dict)
    budget: dict[str, Any] | None = None
    bounds: list[dict[str, Any]] | None = None
    parsed: Any = None

    def value(self) -> Any:
        """Return the input as a JSON value."""
        if self.parsed is None:
            self.parsed = orjson.loads(self.input)
        return self.parsed


@dataclass(frozen=True, slots=True)
class Offer:
    """A result of an earlier run of the task, taken over where the input is the same (``actions.reruns``)."""

    run_id: uuid.UUID
    input_sha256: bytes | None
    output: bytes
    output_sha256: bytes


@dataclass(frozen=True, slots=True)
class UndoFacts:
    """The effect that a step undoes, or checks: the key of the undoing call, then what is known of the operation."""

    business_key: str
    operation_id: uuid.UUID
    undone_key: str
    arguments: bytes
    response: bytes | None
    external_ref: str | None

    def value(self) -> dict[str, Any]:
        """Return what expressions read as ``operation``."""
        return {
            "id": str(self.operation_id),
            "business_key": self.undone_key,
            "arguments": orjson.loads(bytes(self.arguments)),
            "output": orjson.loads(bytes(self.response)) if self.response is not None else None,
            "external_ref": self.external_ref,
        }


@dataclass(frozen=True, slots=True)
class Policy:
    """What a tenant lets its tools do: the data regions and scopes they may have, None for all (C3.2)."""

    data_regions: frozenset[str] | None
    scopes: frozenset[str] | None

    @classmethod
    def parse(cls, text: str) -> Policy:
        """Return the policy in a row's JSON."""
        value = orjson.loads(text)
        return cls(*(None if value[k] is None else frozenset(value[k]) for k in ("data_regions", "scopes")))


@dataclass(slots=True)
class Claimed:
    """A step this worker owns in ``owner_epoch``: everything that running it needs."""

    tenant_id: uuid.UUID
    run_id: uuid.UUID
    step_id: uuid.UUID
    node: NodePlan
    plan: Plan
    execution_version: int
    attempt: int
    owner_epoch: int
    deadline: datetime | None
    now: datetime
    task: TaskFacts | None = None
    upstream: dict[str, dict[str, Any]] = field(default_factory=dict)
    operation_id: uuid.UUID | None = None
    business_key: str | None = None
    offer: Offer | None = None
    undo: UndoFacts | None = None
    gone: list[str] = field(default_factory=list)  # nodes whose output was stored and is not there any more
    policy: Policy | None = None
    poisoned: str | None = None  # a node whose stored output cannot be read
    tries: int = 1  # calls made, this one included: an attempt that yielded, or whose worker was lost, was no try
    signal: dict[str, Any] | None = None
    seq: int = 0  # the run's, with this start: what was kept up to there is not done again if the worker is lost
    calls: list[CallsBefore] = field(default_factory=list)  # counted where budgets bound them

    def bounds(self, name: str) -> list[tuple[uuid.UUID, int]]:
        """Return the runs whose budgets bound ``calls`` or ``effects`` of this one, and how many: itself first.

        The others are above it, the nearest first. Nothing bounds what undoes an effect.
        """
        if self.task is None or self.undo is not None:
            return []
        own = (self.task.budget or {}).get(name)
        found = [] if own is None else [(self.run_id, own)]
        return found + [(uuid.UUID(one["run"]), one[name]) for one in self.task.bounds or () if name in one]


@dataclass(frozen=True, slots=True)
class CallsBefore:
    """Calls that one budget was used for before this one; ``made`` of them surely are calls.

    What is in hand of the run itself may yet be adopted or refused, and is then no call.
    """

    run_id: uuid.UUID
    most: int
    before: int
    made: int


@dataclass(slots=True)
class Report:
    """What became of a claimed step; :mod:`runtime.worker.complete` writes it.

    ``outcome``: succeeded, failed, retry, unknown, yielded, given_back, parked or killed. ``operation_status`` is where
    the call left the operation, None when there is none. ``output`` are canonical bytes. ``resent``: it may have been
    written before, since the database went away before it confirmed. ``waits_for``: the
    limit, breaker or state that a step which is given back waits for. ``present``: the version in which the target of
    a call that people are asked about was found (C5.6); ``left``: the one that an applied call left behind, {looked_at:
    of whom it was asked what, by hash; version}. ``looked_by``: the tool that told, or could not tell, the version.
    """

    claimed: Claimed
    outcome: str
    output: bytes | None = None
    output_sha256: bytes | None = None
    input_sha256: bytes | None = None
    error: dict[str, Any] | None = None
    not_before: datetime | None = None
    cause: str | None = None
    choice: list[str] | None = None
    operation_status: str | None = None
    external_ref: str | None = None
    kind: str = "observation"
    verdict: dict[str, Any] | None = None
    adopted_from: uuid.UUID | None = None
    seconds: float = 0.0
    resent: bool = False
    waits_for: uuid.UUID | None = None
    present: str | None = None
    left: dict[str, Any] | None = None
    looked_by: str | None = None


class Held(Protocol):
    """What is about one claimed step."""

    @property
    def claimed(self) -> Claimed: ...


_Held = TypeVar("_Held", bound=Held)


def by_tenant(items: Iterable[_Held]) -> dict[uuid.UUID, list[_Held]]:
    """Return them by tenant, each tenant's in their order."""
    found: dict[uuid.UUID, list[_Held]] = {}
    for one in items:
        found.setdefault(one.claimed.tenant_id, []).append(one)
    return found
