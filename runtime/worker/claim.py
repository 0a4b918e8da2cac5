"""The claim: who runs what is decided here, by lease and owner_epoch in our own table (C2.9, engine.md 1)."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Collection
from typing import Any

import orjson
import psycopg

from runtime.graph.plans import plan_of
from runtime.kernel.canonical import digest
from runtime.machine.apply import move_run, move_step
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState, StepState
from runtime.store.arrays import Array, arrays
from runtime.store.columns import STEP
from runtime.store.tx import Tx, plain_rows, tenant_tx
from runtime.worker.budgets import count_calls
from runtime.worker.gates import Gates, note_parked, park_steps
from runtime.worker.onward import Room
from runtime.worker.session import mark_of
from runtime.worker.undoing import UndoOrder, called, undo_orders
from runtime.worker.work import Claimed, Offer, TaskFacts

_N_STEP = len(STEP)
_MAX_FACTS = 4096
# How long a run is passed over whose claim broke: its workflow cannot be read, or the database refuses its rows.
_REFUSED_SECONDS = 10.0


class SessionOver(Exception):
    """This worker's session has ended or its lease has run out: it must not claim any more."""


def ready_tenants(pools: list[str]) -> list[uuid.UUID]:
    """Return the tenants that have a claimable step in these pools."""
    return [row[0] for row in plain_rows("ready_tenants", (pools,))]


class Claimer:
    """Claims for one worker session. Task facts are kept between claims: a run's steps come back to the same worker."""

    def __init__(self, session_id: uuid.UUID) -> None:
        self.session_id = session_id
        self._payload = orjson.dumps({"worker": str(session_id)}).decode()
        self._facts: OrderedDict[uuid.UUID, TaskFacts] = OrderedDict()
        self.parked, self.left = 0, False
        self._asked: tuple[psycopg.Cursor | None, psycopg.Cursor | None] = (None, None)
        self.mark = mark_of(session_id)
        self._found: set[uuid.UUID] = set()  # the runs of the last claim
        self._refused: dict[uuid.UUID, float] = {}

    def claim(
        self, tenant_id: uuid.UUID, pool: str, limit: int, slots: int | None = None, inline: int | None = None
    ) -> list[Claimed]:
        """Claim up to ``limit`` steps in one short transaction that never waits. Raises SessionOver.

        Of them at most ``slots`` are steps whose call waits in a slot, and ``inline`` run in the drain's own thread;
        what goes beyond that is left to others (``left``: steps of the second kind were). Steps that a limit or a
        breaker keeps from starting are parked; ``parked`` says how many.
        """
        self.parked, self.left = 0, False
        refused, self._found = self._passed_over(), set()
        with tenant_tx(tenant_id, deferred=True) as tx:
            with tx.pipeline():
                live = tx.send("session_is_live", (self.mark, self.session_id))
                found = tx.send("claim_ready", (pool, tenant_id, refused, limit))
                bounds = tx.send("gates")
                clock = tx.send("now")
            alive = live.fetchone()
            if alive is None or not alive[0]:
                raise SessionOver
            rows = found.fetchall()
            self._found = {row[_N_STEP] for row in rows}
            if not rows:
                return []
            frame = Frame(tx, plan_of)
            now = clock.fetchone()[0]  # type: ignore[index]
            room = Room(limit, limit if slots is None else slots, inline)
            claimed, parked = self._choose(frame, self._take(frame, rows, now), room, Gates(bounds.fetchall(), tx))
            self.parked, self.left = len(parked), room.left
            frame.flush(lambda tx: self.follow(tx, claimed))
            park_steps(tx, parked)
            self.read_context(tx, claimed)
            return claimed

    def _choose(
        self, frame: Frame, steps: list[StepState], room: Room, gates: Gates
    ) -> tuple[list[Claimed], list[tuple[uuid.UUID, uuid.UUID]]]:
        """Start the steps that may start; return them, and the others with what they have to wait for."""
        pairs = [(frame.runs[step.run_id], step) for step in steps]
        orders = undo_orders(frame.tx, steps)
        nodes = [(run, called(run, step, orders)) for run, step in pairs]
        concerned = [pair for pair in nodes if gates.concern(*pair)]
        if concerned:
            gates.open(frame.tx, frame, concerned)
        claimed: list[Claimed] = []
        parked: list[tuple[uuid.UUID, uuid.UUID]] = []
        for (run, step), (_run, node) in zip(pairs, nodes, strict=True):
            if concerned and (gate := gates.refuses(run, node)) is not None:
                parked.append((step.id, gate))
                note_parked(run, step, gates.named(run, gate))
            elif room.take(frame.tx.tenant_id, node):
                tokens = gates.take(run, node) if concerned else None
                claimed.append(self.start(run, step, tokens, orders.get(step.id)))
                claimed[-1].policy = gates.policy
        return claimed, parked

    def follow(self, tx: Tx, claimed: list[Claimed]) -> None:
        """Write the attempts of steps that are started in this transaction, and ask for what they need."""
        if claimed:
            rows = arrays("uuii", [(c.run_id, c.step_id, c.attempt, c.owner_epoch) for c in claimed])
            tx.send("insert_attempts", (tx.tenant_id, self.session_id, claimed[0].now, *rows))
        self.ask_context(tx, claimed)

    def refuse(self) -> int:
        """Pass over the run whose claim just broke, for a while; return how many are passed over by now.

        0 when there were several runs, or none, to choose from.
        """
        if len(self._found) != 1:
            return 0
        self._refused[next(iter(self._found))] = time.monotonic() + _REFUSED_SECONDS
        return len(self._refused)

    def _passed_over(self) -> Array:
        if self._refused:
            now = time.monotonic()
            self._refused = {run_id: until for run_id, until in self._refused.items() if until > now}
        return arrays("u", [(run_id,) for run_id in self._refused])[0]

    def recover(self, tenant_id: uuid.UUID, known: Collection[uuid.UUID]) -> list[Claimed] | None:
        """Return the steps this session runs by the rows but not by ``known``: those of an unconfirmed claim.

        None while the transaction of that claim may still be open: its connection was cut, and the server works on.
        """
        with tenant_tx(tenant_id) as tx:
            if not tx.rows("session_is_quiet", (self.mark,))[0][0]:
                return None
            rows = [row for row in tx.rows("steps_of_session", (tenant_id, self.session_id)) if row[0] not in known]
            frame = Frame(tx, plan_of)
            steps = self._take(frame, rows, tx.now())
            orders = undo_orders(tx, steps)
            claimed = [self._claimed(frame.runs[step.run_id], step, orders.get(step.id)) for step in steps]
            policy = Gates(tx.rows("gates"), tx).policy
            for one in claimed:
                one.policy = policy
            self.ask_context(tx, claimed)
            self.read_context(tx, claimed)
            return claimed

    def _take(self, frame: Frame, rows: list[tuple[Any, ...]], now: Any) -> list[StepState]:
        steps = [StepState(*row[:_N_STEP]) for row in rows]
        runs: dict[uuid.UUID, RunState] = {}
        for row in rows:
            if row[_N_STEP] not in runs:
                runs[row[_N_STEP]] = RunState(*row[_N_STEP:])
        frame.adopt(runs.values(), now)
        frame.take(steps)
        return steps

    def start(
        self,
        run: RunState,
        step: StepState,
        tokens: list[uuid.UUID] | None = None,
        order: UndoOrder | None = None,
    ) -> Claimed:
        """Move a queued step of a locked run to running, in this session's hands, with the tokens it holds then."""
        move_step(run, step, "running", by="engine", worker=self.session_id, tokens=tokens, payload=self._payload)
        if run.status != "running" and run.attention is None and not step.undoes:
            move_run(run, "running", by="engine")
        return self._claimed(run, step, order)

    def _claimed(self, run: RunState, step: StepState, order: UndoOrder | None) -> Claimed:
        node = run.plan.nodes[step.node]
        return Claimed(
            tenant_id=None,  # type: ignore[arg-type]
            run_id=run.id,
            step_id=step.id,
            node=node if order is None else order.node_of(node),
            plan=run.plan,
            execution_version=step.execution_version,
            attempt=step.attempt,
            owner_epoch=step.owner_epoch,
            deadline=run.deadline if order is None else order.deadline,
            now=run.now,  # type: ignore[arg-type]
            undo=None if order is None else order.facts,
            seq=run.seq,
        )

    def ask_context(self, tx: Tx, claimed: list[Claimed]) -> None:
        """Ask for what the steps' expressions read: the task, and the outputs of the nodes they name."""
        missing = {c.run_id for c in claimed if c.run_id not in self._facts}
        wanted = [(c.run_id, ref) for c in claimed for ref in c.node.refs]
        facts = tx.send("task_inputs", arrays("u", [(run_id,) for run_id in missing])) if missing else None
        self._asked = facts, tx.send("outputs_at", arrays("ut", wanted)) if wanted else None

    def read_context(self, tx: Tx, claimed: list[Claimed]) -> None:
        """Read the answers to :meth:`ask_context` into the claimed steps."""
        facts, found = self._asked
        for run_id, task_input, task_id, *rest in facts if facts is not None else ():
            self._facts[run_id] = TaskFacts(task_id, bytes(task_input), *rest)
        outputs: dict[tuple[uuid.UUID, str], dict[str, Any]] = {}
        gone: set[tuple[uuid.UUID, str]] = set()
        broken: set[tuple[uuid.UUID, str]] = set()
        for run_id, node, status, error, output, kept in found if found is not None else ():
            try:
                value = orjson.loads(bytes(output)) if output is not None else None
            except ValueError:
                # Whoever reads it fails alone; the others of this claim know nothing of it.
                broken.add((run_id, node))
                continue
            outputs[run_id, node] = {"status": status, "error": error, "output": value}
            if kept and output is None:
                gone.add((run_id, node))
        for c in claimed:
            c.tenant_id = tx.tenant_id  # type: ignore[assignment]
            c.task = self._facts[c.run_id]
            self._facts.move_to_end(c.run_id)
            c.upstream = {ref: outputs[c.run_id, ref] for ref in c.node.refs if (c.run_id, ref) in outputs}
            if gone:
                c.gone = sorted(ref for ref in c.node.refs if (c.run_id, ref) in gone)
            c.poisoned = next((ref for ref in c.node.refs if (c.run_id, ref) in broken), None) if broken else None
        self._read_offers(tx, claimed)
        self._read_answers(tx, claimed)
        self._read_tries(tx, claimed)
        self._read_signals(tx, claimed)
        count_calls(tx, claimed)
        while len(self._facts) > _MAX_FACTS:
            self._facts.popitem(last=False)

    def _read_answers(self, tx: Tx, claimed: list[Claimed]) -> None:
        """Fetch what people answered; only input steps ask."""
        wanted = {c.step_id: c for c in claimed if c.node.kind == "input"}
        for step_id, answer in tx.rows("input_answers", (list(wanted),)) if wanted else []:
            c, data = wanted[step_id], bytes(answer)
            c.offer = Offer(c.run_id, None, data, digest(data))

    def _read_tries(self, tx: Tx, claimed: list[Claimed]) -> None:
        """Count what the retry policy counts; a first attempt asks nothing."""
        again = {c.step_id: c for c in claimed if c.attempt > 1}
        if not again:
            return
        for step_id, tries in tx.rows("tries_before", arrays("uu", [(c.run_id, c.step_id) for c in again.values()])):
            again[step_id].tries = tries + 1

    def _read_signals(self, tx: Tx, claimed: list[Claimed]) -> None:
        """Fetch the external events that steps waited for; other steps ask nothing."""
        wanted = {c.step_id: c for c in claimed if c.node.event is not None}
        if not wanted:
            return
        for step_id, name, event_id, correlation_id, payload, received_at in tx.rows("inbox_of_steps", ([*wanted],)):
            wanted[step_id].signal = {
                "event": name,
                "event_id": event_id,
                "correlation_id": correlation_id,
                "received_at": received_at.isoformat(),
                "payload": orjson.loads(bytes(payload))[1],
            }

    def _read_offers(self, tx: Tx, claimed: list[Claimed]) -> None:
        """Fetch the results a rerun may take over; other runs have none and ask nothing."""
        wanted = {}
        for c in claimed:
            if c.task is not None and c.task.adopts and c.execution_version == 1 and c.node.id in c.task.adopts:
                wanted[c.task.rerun_of, c.node.id] = c
        if not wanted:
            return
        for run_id, node, input_sha256, output, output_sha256 in tx.rows(
            "offered_checkpoints", arrays("ut", [*wanted])
        ):
            wanted[run_id, node].offer = Offer(
                run_id, bytes(input_sha256) if input_sha256 else None, bytes(output), bytes(output_sha256)
            )
