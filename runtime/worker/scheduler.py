"""The scheduler process: maintenance duties, each a loop around a ``run_once`` that returns counts.

Any number may run at once, on any host: every change a duty makes is a compare-and-set under the run's lock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
import structlog

from runtime.kernel import seams
from runtime.kernel.conf import conf
from runtime.kernel.errors import Unavailable
from runtime.store.tx import plain_rows
from runtime.worker.maintenance import (
    alerts,
    breaches,
    gates,
    layouts,
    lost,
    outbox,
    preferred,
    reconcile,
    signals,
    stops,
    storage,
    stranded,
    timers,
)
from runtime.worker.maintenance.subscribers import Reader

log = structlog.get_logger(__name__)

_SHORTEST = 0.005
# A duty that fails so many times in a row is told to whoever asks whether the installation is ready.
_FAILING_TURNS = 3
APPLICATION = "quarterdeck scheduler"


@dataclass(slots=True)
class Duty:
    """A duty and when it is next due (monotonic seconds).

    One that waits for others (a mail server, a webhook) runs ``apart``, in a thread of its own: timers and leases do
    not wait for it. ``close`` ends what it began, and the process does not end before that.
    """

    name: str
    run_once: Callable[[], object]
    every: float
    next_at: float = 0.0
    apart: bool = False
    failures: int = 0
    close: Callable[[], object] | None = None


def duties() -> list[Duty]:
    """Return the duties of this process, fresh."""
    poll, relay = conf().poll_seconds, outbox.new_relay()
    return [
        Duty("timers", timers.fire_timers, poll),
        Duty("deadlines", timers.enforce_deadlines, poll),
        Duty("cancels", timers.enforce_cancels, poll),
        Duty("expired_sessions", lost.end_expired_sessions, poll),
        Duty("orphans", lost.return_orphans, poll),
        Duty("orphaned_operations", lost.doubt_orphaned_operations, poll),
        Duty("signals", signals.Deliverer().run_once, poll),
        Duty("overdue_signals", signals.end_overdue, poll),
        Duty("reconcile", reconcile.reconcile, poll, apart=True),
        Duty("layouts", layouts.Artist().run_once, 2 * poll),
        Duty("preferred", preferred.leave_preferred, poll),
        Duty("gates", gates.Turnstile().run_once, poll),
        Duty("stops", stops.Releaser().run_once, poll),
        Duty("outbox", relay.run_once, poll, apart=True, close=relay.close),
        Duty("alerts", alerts.evaluate, 5 * poll),
        Duty("stranded", stranded.mend_stranded, 30 * poll),
        Duty("artifacts", storage.purge_artifacts, 60 * poll),
        Duty("partitions", storage.ensure_partitions, 3600.0),
        Duty("statistics", storage.refresh_statistics, poll, apart=True),
        Duty("breaches", breaches.Searcher().run_once, conf().invariants_seconds, apart=True),
        Duty("answers", storage.forget_answers, 6 * 3600.0),
        *(Duty(one.name, one.run_once, one.every, apart=one.apart) for one in seams.duties()),
        # Each in a thread of its own: one that is slow holds up no other.
        *(Duty(f"subscriber {one.name}", Reader(one).run_once, poll, apart=True) for one in seams.subscribers()),
    ]


def run(stop: threading.Event, *, only: list[Duty] | None = None) -> None:
    """Run the duties until told to stop; a duty that fails is logged and tried again at its next turn."""
    mine = only if only is not None else duties()
    waited_for = []
    for duty in mine:
        if duty.apart:
            thread = threading.Thread(target=_loop, args=(stop, [duty]), name=duty.name, daemon=True)
            thread.start()
            waited_for += [thread] if duty.close else []
    _loop(stop, [duty for duty in mine if not duty.apart])
    for thread in waited_for:
        thread.join()


def _loop(stop: threading.Event, mine: list[Duty]) -> None:
    told: str | None = None
    while not stop.is_set():
        now = time.monotonic()
        for duty in mine:
            if duty.next_at <= now:
                _turn(duty)
        told = _tell(told, mine)
        stop.wait(max(_SHORTEST, min((duty.next_at for duty in mine), default=now + 1.0) - time.monotonic()))
    for duty in mine:
        if duty.close:
            duty.close()


def _tell(told: str | None, mine: list[Duty]) -> str | None:
    """Name our connection after the first duty that keeps failing: `/readyz` reads it. Returns what it is named."""
    failing = next((duty.name for duty in mine if duty.failures >= _FAILING_TURNS), None)
    if failing is None and told is None:
        return None
    try:
        name = APPLICATION if failing is None else f"{APPLICATION}, failing: {failing}"
        plain_rows("name_connection", (name,))
    except Exception as problem:  # a name is worth nobody's turn
        log.debug("the connection keeps its name", problem=str(problem)[:200])
        return told or failing
    return failing


def _turn(duty: Duty) -> None:
    duty.failures += 1
    try:
        result = duty.run_once()
        duty.failures = 0
        duty.next_at = time.monotonic() + duty.every
        if duty.name == "timers":
            _sharpen(duty, bool(result))
        if (isinstance(result, int) and result) or (isinstance(result, dict) and any(result.values())):
            log.info("duty", name=duty.name, result=result)
    except (psycopg.Error, Unavailable) as problem:
        log.warning("duty failed", name=duty.name, problem=str(problem)[:300])
        duty.next_at = time.monotonic() + duty.every
    except Exception:
        # One duty's trouble must not take the others' turns.
        log.exception("duty failed", name=duty.name)
        duty.next_at = time.monotonic() + duty.every


def _sharpen(duty: Duty, fired: bool) -> None:
    """Wake for the next timer itself, not for the next poll; one that is overdue and did not fire can wait for it."""
    seconds = timers.seconds_to_next_timer()
    if seconds is not None and (seconds > 0 or fired):
        duty.next_at = min(duty.next_at, time.monotonic() + max(_SHORTEST, seconds))
