"""A run as it was, told again from its ledger up to an event (C6.1, C7.9).

Events are read and folded under the workflow version that the run has, and that is all. Nothing is written, and no tool
can be reached from here: the layer that calls them lies above. Results are what was recorded of them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runtime.access import verbs as v
from runtime.graph.plan import Plan
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, EventsGone
from runtime.queries import outputs
from runtime.queries.base import reading
from runtime.queries.fold import FoldedRun, FoldedStep
from runtime.queries.rebuild import STEP_FIELDS, compare_in, fold_in, stored_in
from runtime.queries.runs import COUNTERS, run_in
from runtime.queries.steps import present_step
from runtime.store.tx import Tx

_RUN = "status reason version seq paused cancel_requested attention created_at started_at finished_at".split()
_EVENT = "seq type node execution_version from_status to_status cause actor reason occurred_at".split()


# So many events of a run are folded while somebody waits for an answer; the command tells longer runs too.
MOST_EVENTS = 200_000


@dataclass(frozen=True, slots=True)
class Past:
    """What the events up to one of them say, ``event``, beside the rows of now."""

    folded: FoldedRun
    event: dict[str, Any]
    run: dict[str, Any]
    steps: list[dict[str, Any]]

    @property
    def plan(self) -> Plan:
        return self.folded.plan

    @property
    def at(self) -> datetime:
        """Return when the last event of this past was."""
        at: datetime = self.event["occurred_at"]
        return at

    def run_then(self) -> dict[str, Any]:
        """Return the run's state of then as plain values."""
        counts = self.folded.counts()
        return {
            "id": self.run["id"],
            **{name: getattr(self.folded, name) for name in _RUN},
            "deadline": self.run["deadline"],
            "counts": {name: counts[column] for name, column in COUNTERS.items()},
            "output_kind": outputs.of_run(self.folded.status),
        }

    def rows_then(self) -> list[dict[str, Any]]:
        """Return the rows of the steps that were current then, as a read of step rows would have had them."""
        known = {(row["node"], row["execution_version"]): row for row in self.steps}
        return [
            self._row(step, known.get((step.node, step.execution_version))) for step in self.folded.current.values()
        ]

    def _row(self, step: FoldedStep, stored: dict[str, Any] | None) -> dict[str, Any]:
        # From the row as it is now: id and priority never change, and in which of its pools a step stood is not folded.
        # A step that no event has named yet is known by its row alone.
        kept = stored or {"id": None, "priority": 0, "pool": ""}
        return {
            **{name: kept[name] for name in ("id", "priority", "pool")},
            **({"id": step.id} if step.id is not None else {}),
            "prefer_until": None,
            "run_id": self.run["id"],
            "node": step.node,
            "kind": self.plan.nodes[step.node].kind,
            "execution_version": step.execution_version,
            **{name: getattr(step, name) for name in STEP_FIELDS},
            "now": self.at,
        }


def past_in(tx: Tx, run_id: uuid.UUID, until: int | None, most: int | None = MOST_EVENTS) -> Past:
    """Fold a run's events up to ``until``, the newest when None, inside an open transaction.

    Raises NotFound, BadInput for an event there is not and for a run of more than ``most`` events (None: any number),
    EventsGone where not all events are kept.
    """
    run, steps = stored_in(tx, run_id)
    if most is not None and run["seq"] > most:
        raise BadInput(
            f"The run has {run['seq']} events; up to {most} are told again while you wait.",
            where="run_id",
            remediation="Use the command `run replay ID`: it tells longer runs too.",
            run_id=run_id,
        )
    seq = run["seq"] if until is None else until
    if not 1 <= seq <= run["seq"]:
        raise BadInput(
            f"The run has events 1 to {run['seq']}, and none numbered {seq}.",
            where="until",
            remediation=f"Give a number from 1 to {run['seq']}.",
            run_id=run_id,
        )
    kept = tx.one("replay_range", (run_id, run["seq"]))
    assert kept is not None
    if kept[2] != run["seq"]:
        there = f"events {kept[0]} to {kept[1]}" if kept[2] else "none"
        raise EventsGone(
            f"The run had events 1 to {run['seq']}; {there} are kept ({kept[2]} in all), so its past can't be told.",
            run_id=run_id,
            available={"first": kept[0], "last": kept[1]},
        )
    folded = FoldedRun(plan_of(tx, run["workflow_version_id"]))
    event = fold_in(tx, folded, run_id, seq)
    assert event is not None
    return Past(folded, event, run, steps)


def replay_run(
    *, actor: Actor, run_id: uuid.UUID, until: int | None = None, most: int | None = MOST_EVENTS
) -> dict[str, Any]:
    """Return a run as its events up to ``until`` tell it, and how all of its events compare with the stored rows.

    {run_id, workflow, workflow_version, until, head_seq, at, event, results, run, steps, operations, stored}. ``steps``
    are those of then; each has ``now``, the state {execution_version, status, cause} that its node is in today.
    ``operations`` are {operation_id, status} of then. ``results`` is "recorded": nothing was carried out again.
    ``stored`` is {seq, ok, differences}: the fold of every event beside the rows, as ``run rebuild`` compares them.
    Raises as :func:`past_in` does. Verb ``run.read``.
    """
    with reading(actor, v.RUN_READ) as tx:
        past = past_in(tx, run_id, until, most)
        named = run_in(tx, run_id)
        body = {
            "run_id": run_id,
            "workflow": named["workflow"],
            "workflow_version": named["workflow_version"],
            "until": past.folded.seq,
            "head_seq": past.run["seq"],
            "at": past.at,
            "event": _event(past),
            "results": "recorded",
            "run": past.run_then(),
            "steps": _steps(past),
            "operations": [
                {"operation_id": one, "status": status} for one, status in sorted(past.folded.operations.items())
            ],
        }
        # The same fold goes on to the end: what it says there must be what is stored.
        fold_in(tx, past.folded, run_id, past.run["seq"])
        differences = compare_in(tx, past.folded, past.run, past.steps)
    stored = {"seq": past.run["seq"], "ok": not differences, "differences": differences}
    return {**body, "stored": stored}


def _event(past: Past) -> dict[str, Any]:
    node = past.event["node"]
    kind = past.plan.nodes[node].kind if node is not None else None
    told = {name: past.event[name] for name in _EVENT}
    return {**told, "actor": told["actor"] or "engine", "output_kind": outputs.of_event(past.event, kind)}


def _steps(past: Past) -> list[dict[str, Any]]:
    now = {
        row["node"]: {name: row[name] for name in ("execution_version", "status", "cause")}
        for row in past.steps
        if not row["superseded"]
    }
    return [{**present_step(row), "now": now.get(row["node"])} for row in past.rows_then()]
