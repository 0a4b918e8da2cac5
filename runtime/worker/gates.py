"""What keeps a ready step from starting: limits without a free token, and breakers that are open (C2.7, B4.2).

Read in the claim's own round trip, locked only where one of them concerns a step that is about to start. A step that
may not start is parked: it leaves the ready index until what it waits for is free (engine.md 3).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import psycopg
import structlog

from runtime.graph.plan import NodePlan, Plan
from runtime.kernel.errors import BadInput, NotFound, Unavailable
from runtime.machine.apply import note
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import arrays
from runtime.store.tx import Tx, tenant_tx
from runtime.tools.present import present_of
from runtime.tools.registry import tool_of
from runtime.worker.work import Policy

log = structlog.get_logger(__name__)

_PROBE_GRACE_SECONDS = 10.0


@dataclass(slots=True)
class Limit:
    """A limit as it stands: ``free`` tokens and ``allowance`` calls, None where it does not bound that."""

    id: uuid.UUID
    scope: str
    name: str
    most: int | None
    used: int
    rated: bool
    allowance: float | None
    waited_for: bool

    def covers(self, tool: str, workflow: str) -> bool:
        """Say whether a call of ``tool`` (name@version) in ``workflow`` takes a token of it."""
        if self.scope == "tool":
            return self.name in (tool, tool.rpartition("@")[0])
        return self.scope != "workflow" or self.name == workflow

    @property
    def full(self) -> bool:
        return (self.most is not None and self.used >= self.most) or (self.rated and (self.allowance or 0.0) < 1.0)


@dataclass(slots=True)
class Breaker:
    """A breaker that has seen failures; ``seconds`` until its time is over, None while it is closed."""

    id: uuid.UUID
    state: str
    tool: str
    seconds: float | None

    @property
    def shut(self) -> bool:
        """Whether no call goes through but a probe."""
        return self.state != "closed"

    @property
    def probing(self) -> bool:
        """Whether the next call may be the probe."""
        return self.shut and (self.seconds or 0.0) <= 0.0


class Gates:
    """The limits and breakers of one tenant in one transaction, as ``gates`` in limits.sql returns them."""

    def __init__(self, rows: Iterable[tuple[Any, ...]], tx: Tx) -> None:
        self._tx = tx
        self.limits: list[Limit] = []
        self.breakers: list[Breaker] = []
        self.policy: Policy | None = None
        for id, kind, name, most, used, calls, number, waited_for in rows:
            if kind == "policy":
                self.policy = Policy.parse(name)
            elif kind in ("closed", "open", "half_open"):
                self.breakers.append(Breaker(id, kind, name, number))
            else:
                self.limits.append(Limit(id, kind, name, most, used, calls is not None, number, waited_for))
        self._of: dict[tuple[str, str], tuple[list[Limit], list[Breaker]]] = {}
        self._probes: set[uuid.UUID] = set()
        self._running: dict[uuid.UUID, int] = {}

    def troubled(self, tool: str) -> bool:
        """Say whether a breaker of the tool has something that a success mends."""
        return any(one.tool == tool and one.state != "open" for one in self.breakers)

    def of(self, node: NodePlan, plan: Plan) -> tuple[list[Limit], list[Breaker]]:
        """Return what a call of ``node`` has to pass, and the look at its target with it."""
        key = (node.tool or "", plan.name)
        found = self._of.get(key)
        if found is None:
            tools = self._tools(key[0])
            limits = [one for one in self.limits if any(one.covers(tool, plan.name) for tool in tools)]
            found = self._of[key] = limits, [one for one in self.breakers if one.tool in tools and one.shut]
        return found

    def _tools(self, tool: str) -> list[str]:
        """Return the tools that a call of ``tool`` asks: itself, and the reader of its target where it has one."""
        if not tool or not (self.limits or self.breakers):
            return [tool]
        try:
            present = present_of(tool_of(self._tx, tool).contract)
        except (NotFound, BadInput):
            return [tool]  # its step says so when it begins
        return [tool] if present is None else [tool, present.tool]

    def open(self, tx: Tx, frame: Frame, pairs: Iterable[tuple[RunState, NodePlan]]) -> None:
        """Lock the limits of calls that are about to start and read them as they are now; win probes of breakers.

        What the frame gives back by its own moves is free for them too.
        """
        wanted: dict[uuid.UUID, Limit] = {}
        probes: dict[uuid.UUID, float] = {}
        bounded: dict[uuid.UUID, RunState] = {}
        for run, node in pairs:
            if run.plan.max_parallel is not None:
                bounded[run.id] = run
            if node.tool is None:
                continue
            limits, breakers = self.of(node, run.plan)
            wanted.update((one.id, one) for one in limits)
            if all(one.probing for one in breakers):  # one call is the probe of all of them
                probes.update({one.id: (node.timeout_s or 60.0) + _PROBE_GRACE_SECONDS for one in breakers})
        if wanted:
            given = {id for run in frame.runs.values() for id in run.tokens or ()}  # locked with them, in one order
            ids = arrays("u", [(id,) for id in sorted({*wanted, *given})])
            for id, used, allowance in tx.rows("lock_limits", ids):
                if id in wanted:
                    wanted[id].used, wanted[id].allowance = used, allowance
            for run in frame.runs.values():
                for id, (taken, _started) in (run.tokens or {}).items():
                    if id in wanted:
                        wanted[id].used += taken
        if probes:
            ids = arrays("u", [(id,) for id in sorted(probes)])
            self._probes = {row[0] for row in tx.rows("probe_breakers", (max(probes.values()), *ids))}
        if bounded:
            self._count_running(tx, bounded)

    def _count_running(self, tx: Tx, bounded: dict[uuid.UUID, RunState]) -> None:
        self._running = dict(tx.rows("running_of_runs", arrays("u", [(id,) for id in bounded])))
        for id, run in bounded.items():
            left = sum(s.read_status == "running" and s.status != "running" for s in run.steps.values())
            self._running[id] = self._running.get(id, 0) - left

    def refuses(self, run: RunState, node: NodePlan) -> uuid.UUID | None:
        """Return what a step has to wait for, None when it may start."""
        most = run.plan.max_parallel
        if most is not None and self._running.get(run.id, 0) >= most:
            return run.id
        if node.tool is None:
            return None
        limits, breakers = self.of(node, run.plan)
        if shut := [one for one in breakers if one.id not in self._probes]:
            return max(shut, key=lambda one: one.seconds or 0.0).id
        for limit in limits:
            if limit.full:
                return limit.id
        return None

    def named(self, run: RunState, gate: uuid.UUID) -> dict[str, str]:
        """Return what a step waits for in words of the ledger: {kind, name}; kind ``run`` is the run's own bound."""
        if gate == run.id:
            return {"kind": "run", "name": ""}
        for breaker in self.breakers:
            if breaker.id == gate:
                return {"kind": "breaker", "name": breaker.tool}
        return next(({"kind": one.scope, "name": one.name} for one in self.limits if one.id == gate), {})

    def take(self, run: RunState, node: NodePlan) -> list[uuid.UUID]:
        """Take what a step that starts needs; return the limits whose tokens it holds."""
        if run.plan.max_parallel is not None:
            self._running[run.id] = self._running.get(run.id, 0) + 1
        if node.tool is None:
            return []
        limits, breakers = self.of(node, run.plan)
        self._probes.difference_update(one.id for one in breakers)
        for limit in limits:
            limit.used += 1
            if limit.allowance is not None:
                limit.allowance -= 1.0
        return [limit.id for limit in limits]

    def concern(self, run: RunState, node: NodePlan) -> bool:
        """Say whether anything here bounds a step of ``node``; most tenants have nothing that does."""
        if run.plan.max_parallel is not None:
            return True
        return node.tool is not None and any(self.of(node, run.plan))

    def freed(self, runs: Collection[RunState]) -> dict[uuid.UUID, int]:
        """Return what parked steps may go on after these runs' moves, and how many; call it before the flush."""
        net: dict[uuid.UUID, int] = {}
        for run in runs:
            if run.plan.max_parallel is not None and run.events:
                net[run.id] = sum(
                    (s.read_status == "running") - (s.status == "running") for s in run.steps.values() if s.dirty
                )
            for id, count in (run.freed or {}).items():
                if run.tokens is None or id not in run.tokens:  # a state: its one writer is done
                    net[id] = count
        for limit in self.limits:
            if limit.waited_for:
                net[limit.id] = -sum((run.tokens or {}).get(limit.id, (0,))[0] for run in runs)
        return {id: count for id, count in net.items() if count > 0}

    def contended(self, run: RunState, node: NodePlan) -> bool:
        """Say whether others wait for what a step would take: then it goes to the end of the line, past a claim."""
        if node.tool is None:
            return False
        limits, breakers = self.of(node, run.plan)
        return bool(breakers) or any(one.waited_for for one in limits)


def note_parked(run: RunState, step: StepState, waits_for: dict[str, str]) -> None:
    """Tell once for each time a step is parked what it waits for; it stays queued, and no look of it is told."""
    note(run, "STEP_PARKED", step, cause="throttled", payload=waits_for)


def park_steps(tx: Tx, parked: list[tuple[uuid.UUID, uuid.UUID]]) -> None:
    """Take queued steps (step, gate) of this transaction out of the ready index."""
    if parked:
        tx.send("park_on", arrays("uu", parked))


def serial_of(tenant_id: uuid.UUID, state: str) -> uuid.UUID:
    """Return the id of a state that is written by one step at a time; the same in every process."""
    return uuid.uuid5(tenant_id, f"state:{state}")


def fresh(step: StepState) -> bool:
    """Whether the step was queued in this transaction and may be claimed."""
    return step.dirty and step.status == "queued" and step.claimable and not step.superseded


def let_go(tenant_id: uuid.UUID, freed: dict[uuid.UUID, int]) -> int:
    """Put parked steps back into the ready index, so many of each gate; returns how many. Waits for nobody.

    With the database away, or a row that cannot be written, that is none: the scheduler finds what is missed here.
    """
    try:
        with tenant_tx(tenant_id, deferred=True) as tx:
            return sum(len(tx.rows("unpark", (gate, count))) for gate, count in freed.items())
    except (Unavailable, psycopg.OperationalError, psycopg.InterfaceError):
        return 0
    except Exception:
        log.exception("parked steps are left to the scheduler", tenant=str(tenant_id))
        return 0
