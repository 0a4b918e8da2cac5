"""Going on: who completes steps starts their successors in the same transaction, while the runs' locks are held.

Of a graph's steps only the first then pass through a claim, and a run stays with one worker, so that two do not wait
for each other's locks. Nothing waits longer for it: no step is taken before a more urgent one that is ready in its
tenant and pool, and the drain goes without now and then so that other tenants get their turn.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from runtime.graph.plan import NodePlan
from runtime.machine.frame import Frame
from runtime.machine.rows import UNDO_KINDS, RunState, StepState
from runtime.store.tx import Tx
from runtime.tools.registry import known_tool
from runtime.worker.gates import Gates, fresh
from runtime.worker.undoing import called, undo_orders
from runtime.worker.work import Claimed

if TYPE_CHECKING:
    import psycopg

    from runtime.worker.claim import Claimer


class Room:
    """How much a worker may take now: ``steps`` in all, of them ``slots`` whose call waits in a slot.

    And ``inline`` that run in the drain's own thread, one after the other; ``left`` says that one of these was left.
    """

    __slots__ = ("inline", "left", "slots", "steps")

    def __init__(self, steps: int, slots: int, inline: int | None = None) -> None:
        self.steps, self.slots, self.inline = steps, slots, steps if inline is None else inline
        self.left = False

    def take(self, tenant_id: uuid.UUID | None, node: NodePlan) -> bool:
        """Take a place for a step of ``node``; False when there is none of its kind."""
        if self.steps <= 0:
            return False
        if runs_inline(tenant_id, node):
            if self.inline <= 0:
                self.left = True
                return False
            self.inline -= 1
        elif self.slots <= 0:
            return False
        else:
            self.slots -= 1
        self.steps -= 1
        return True


def runs_inline(tenant_id: uuid.UUID | None, node: NodePlan) -> bool:
    """Return whether a step runs in the drain's own thread: control nodes do, and tools that say so."""
    if node.tool is None:
        return node.kind not in UNDO_KINDS
    tool = known_tool(tenant_id, node.tool) if tenant_id is not None else None
    return tool is not None and tool.contract.runs == "inline"


class Onward:
    """What one completion may go on with: ``ask`` goes out with the locks, ``take`` comes before the flush."""

    def __init__(
        self, claimer: Claimer, pools: Sequence[str], steps: int, slots: int, inline: int | None = None
    ) -> None:
        self.claimer, self.pools = claimer, list(pools)
        self._most = steps, slots, inline
        self._live: psycopg.Cursor | None = None
        self._urgent: psycopg.Cursor | None = None
        self.taken: list[Claimed] = []

    def ask(self, tx: Tx) -> None:
        """Ask whether this session may start anything, and how urgent what is ready already is."""
        self.taken = []
        self._live = tx.send("session_is_live", (self.claimer.mark, self.claimer.session_id))
        self._urgent = tx.send("most_urgent", (tx.tenant_id, self.pools))

    def take(self, frame: Frame, gates: Gates) -> None:
        """Start what became ready in the frame, as far as there is room; the rest stays in the queue.

        So does what has to wait for a limit or a breaker, or would overtake others that wait for it already.
        """
        assert self._live is not None
        assert self._urgent is not None
        live = self._live.fetchone()
        if live is None or not live[0]:
            return
        urgent: dict[str, int | None] = dict(self._urgent.fetchall())
        room = Room(*self._most)
        fit = list(_ready(frame, urgent))
        orders = undo_orders(frame.tx, [step for _run, step in fit])
        ready = [(run, step, called(run, step, orders)) for run, step in fit]
        ready = [one for one in ready if not gates.contended(one[0], one[2])]
        concerned = [(run, node) for run, _step, node in ready if gates.concern(run, node)]
        if concerned:
            gates.open(frame.tx, frame, concerned)
        for run, step, node in ready:
            if not concerned:
                if room.take(frame.tx.tenant_id, node):
                    self.taken.append(self.claimer.start(run, step, None, orders.get(step.id)))
            elif gates.refuses(run, node) is None and room.take(frame.tx.tenant_id, node):
                self.taken.append(self.claimer.start(run, step, gates.take(run, node), orders.get(step.id)))
        for one in self.taken:
            one.policy = gates.policy

    def write(self, tx: Tx) -> None:
        """Send the attempts of what was started, and ask for what it needs: this transaction's results are among it."""
        self.claimer.follow(tx, self.taken)

    def read(self, tx: Tx) -> None:
        """Read what the started steps need."""
        self.claimer.read_context(tx, self.taken)


def _ready(frame: Frame, urgent: dict[str, int | None]) -> Iterator[tuple[RunState, StepState]]:
    """Yield what became ready in the frame and is no less urgent than what is ready already."""
    for run in frame.runs.values():
        if not run.woke or (run.deadline is not None and run.now is not None and run.deadline <= run.now):
            continue
        for step in run.steps.values():
            most = urgent.get(step.pool, step.priority + 1)
            if fresh(step) and (most is None or most <= step.priority):
                yield run, step
