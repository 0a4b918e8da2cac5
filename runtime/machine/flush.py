"""Writing a unit of work: every change of the runs' rows and the events that tell of them, set-based (engine.md 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import psycopg

from runtime.kernel.errors import Stale
from runtime.machine.rows import RunState
from runtime.machine.tokens import count_tokens
from runtime.machine.write import insert_steps, step_row, update_runs, update_steps, write_events
from runtime.store.arrays import arrays
from runtime.store.tx import Tx

# Workers listen here for kills of what they run; the payload is kill:<step_id>:<owner_epoch>.
CONTROL_CHANNEL = "qd_control"


def _tell_killed(tx: Tx, runs: Iterable[RunState]) -> None:
    """End the attempts of running steps that were killed and tell their workers when this commits."""
    killed = [(run, *entry) for run in runs for entry in run.killed]
    if not killed:
        return
    rows = [(run.id, step_id, attempt, "killed", None, None, None, None) for run, step_id, attempt, _epoch in killed]
    tx.send("finish_attempts", (killed[0][0].now, *arrays("uuistxxt", rows)))
    for _run, step_id, _attempt, epoch in killed:
        tx.notify(CONTROL_CHANNEL, f"kill:{step_id}:{epoch}")


def flush(tx: Tx, runs: Iterable[RunState], also: Callable[[Tx], object] | None = None) -> None:
    """Write every change and its events, and what ``also`` sends in the same round trip.

    A fresh run's own row is inserted by the submit action. Raises Stale when a row was moved by somebody else; the
    caller rolls back.
    """
    runs = [run for run in runs if run.events or any(step.dirty for step in run.steps.values())]
    if not runs:
        if also is not None:
            also(tx)
        return
    with tx.pipeline():
        expected = [*_update_steps(tx, runs), *_update_runs(tx, [run for run in runs if not run.fresh])]
        insert_steps(tx, [s for run in runs for s in run.steps.values() if s.fresh])
        write_events(tx, [event for run in runs for event in run.events])
        _tell_killed(tx, runs)
        if also is not None:
            also(tx)
        count_tokens(tx, runs)
    for count, cursor in expected:
        if cursor.rowcount != count:
            raise Stale("Another transaction moved a row first; nothing was changed.")
    for run in runs:
        run.events, run.waves, run.killed, run.trail, run.tokens = [], [], [], [], None
        run.read_version, run.read_seq, run.read_status, run.fresh = run.version, run.seq, run.status, False
        for step in run.steps.values():
            step.dirty, step.fresh, step.waves = False, False, 0
            step.read_version, step.read_status = step.version, step.status


def _update_steps(tx: Tx, runs: list[RunState]) -> Iterator[tuple[int, psycopg.Cursor]]:
    """Send the updates of step rows, each row's moves one after the other; yield (rows, cursor) of each."""
    for index in range(max(len(run.waves) for run in runs)):
        wave = [row for run in runs if index < len(run.waves) for row in run.waves[index]]
        yield len(wave), update_steps(tx, wave)
    if changed := [step_row(s) for run in runs for s in run.steps.values() if s.dirty and not s.fresh]:
        yield len(changed), update_steps(tx, changed)


def _update_runs(tx: Tx, runs: list[RunState]) -> Iterator[tuple[int, psycopg.Cursor]]:
    for index in range(max((len(run.trail) for run in runs), default=0)):
        before = [run.trail[index] for run in runs if index < len(run.trail)]
        yield len(before), update_runs(tx, before)
    if runs:
        yield len(runs), update_runs(tx, runs)
