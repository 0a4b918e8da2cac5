"""Runs under lock, as one unit of work: read, move, propagate, flush."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from runtime.kernel import seams
from runtime.kernel.errors import NotFound
from runtime.machine import apply
from runtime.machine.law import RUN_TOLD
from runtime.machine.rows import RunState, StepState
from runtime.store import locks
from runtime.store.arrays import arrays
from runtime.store.results import store_results
from runtime.store.tx import Tx


class Frame:
    """The locked runs of one transaction; ``plan_of`` gives a workflow version's compiled plan."""

    def __init__(self, tx: Tx, plan_of: Callable[[Tx, uuid.UUID], Any]) -> None:
        self.tx, self.plan_of = tx, plan_of
        self.runs: dict[uuid.UUID, RunState] = {}
        self.outputs: dict[tuple[uuid.UUID, str], bytes] = {}  # results this transaction brings, by (run, node)
        self.large: dict[bytes, bytes] = {}  # what becomes an artifact and is not stored yet, by SHA-256
        self._stored: dict[bytes, uuid.UUID] = {}

    def lock(self, run_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, RunState]:
        """Lock runs by id and read the clock after that (engine.md 6). Unknown ids are left out."""
        rows = locks.run_rows(self.tx, run_ids)
        self.adopt((RunState(*row) for row in rows), self.tx.now())
        return self.runs

    def lock_with_steps(
        self,
        run_ids: Iterable[uuid.UUID],
        pairs: Iterable[tuple[uuid.UUID, str]],
        also: Callable[[Tx], object] | None = None,
    ) -> None:
        """Lock runs, read the clock and load steps in one round trip; each query sees what the locks waited for.

        ``also`` may send further queries with them.
        """
        with self.tx.pipeline():
            runs = self.tx.send("lock_runs", arrays("u", [(run_id,) for run_id in set(run_ids)]))
            clock = self.tx.send("now")
            steps = self.tx.send("steps_at", arrays("ut", list(pairs)))
            if also is not None:
                also(self.tx)
        now = clock.fetchone()
        assert now is not None
        self.adopt((RunState(*row) for row in runs.fetchall()), now[0])
        self.take(StepState(*row) for row in steps.fetchall())

    def adopt(self, runs: Iterable[RunState], now: Any) -> None:
        """Take runs that are locked already (the claim locks them with their steps)."""
        for run in runs:
            run.now, run.plan = now, self.plan_of(self.tx, run.workflow_version_id)
            self.runs[run.id] = run

    def load(self, pairs: Iterable[tuple[uuid.UUID, str]]) -> None:
        """Read current step rows into their runs; an empty node name reads all steps of the run."""
        wanted = [(run, node) for run, node in pairs if node == "" or node not in self.runs[run].steps]
        if whole := [run for run, node in wanted if node == ""]:
            self.take(StepState(*row) for row in self.tx.rows("steps_of_runs", (whole,)))
        if single := [pair for pair in wanted if pair[1] != ""]:
            self.take(StepState(*row) for row in locks.step_rows(self.tx, single))

    def take(self, steps: Iterable[StepState]) -> None:
        """Put step rows into their runs, keeping rows that are there already (they may have moved)."""
        for step in steps:
            self.runs[step.run_id].steps.setdefault(step.node, step)

    def store(self, contents: Mapping[bytes, bytes] | None = None) -> Mapping[bytes, uuid.UUID]:
        """Store ``contents`` and all that is ``large`` as artifacts; return the ids of what was stored, by SHA-256.

        All at once: so results of steps and of runs are locked in one order, whatever other transactions store.
        """
        self.large.update(contents or {})
        if self.large:
            self._stored |= store_results(self.tx, self.large)
            self.large.clear()
        return self._stored

    def run(self, run_id: uuid.UUID) -> RunState:
        """Return a locked run. Raises NotFound when there is none of that id in this tenant."""
        if run_id not in self.runs:
            self.lock([run_id])
        if run_id not in self.runs:
            raise NotFound("There is no run of that id.")
        return self.runs[run_id]

    def step(self, step_id: uuid.UUID) -> tuple[RunState, StepState]:
        """Lock the run of a step and return both. Raises NotFound; a superseded row is returned as it is."""
        found = self.tx.one("step_run", (step_id,))
        if found is None:
            raise NotFound("There is no step of that id.")
        run_id, node = found
        run = self.run(run_id)
        self.load([(run_id, node)])
        step = run.steps[node]
        if step.id != step_id:
            [old] = self.tx.rows("step_by_id", (step_id,))
            return run, StepState(*old)
        return run, step

    def flush(self, also: Callable[[Tx], object] | None = None) -> None:
        """Write everything that moved, and what ``also`` sends with it; then tell who listens of holds, cases and ends.

        The listeners write in the same transaction, and read the rows and results this unit of work has written.
        """
        news, needs = self._news(), self._needs()
        ends = [run.id for run in self.runs.values() if run.status in RUN_TOLD and run.status != run.read_status]
        apply.flush(self.tx, self.runs.values(), also)
        if news is not None:
            seams.tell_holds(self, news)
        seams.need_cases(self.tx, needs)
        seams.tell_ends(self.tx, ends)

    def _needs(self) -> list[seams.CaseNeed]:
        needs: list[seams.CaseNeed] = []
        for run in self.runs.values():
            if run.needs:
                needs += run.needs
                run.needs = []
        return needs

    def _news(self) -> seams.HoldNews | None:
        news: seams.HoldNews | None = None
        for run in self.runs.values():
            stopping = bool(run.events) and (run.ended or run.cancel_requested) and bool(run.plan.asks)
            if not run.holds and not stopping:
                continue
            news = news or seams.HoldNews()
            for step, began in run.holds:
                (news.began if began else news.left).append((run, step))
            if stopping:
                news.stopping.append(run)
            run.holds = []
        return news
