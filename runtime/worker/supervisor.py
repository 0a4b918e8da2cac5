"""The supervisor behind `manage.py up`: keeps web, workers, heartbeat and scheduler running, and PostgreSQL below them.

One per data folder. What it knows is written to ``run/up.json``, so that the next one finds and ends what a killed
one left behind. Children are stopped in the order workers, scheduler, heartbeat, web, PostgreSQL (engine.md 15).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from runtime.kernel.errors import ConfigurationError
from runtime.worker.children import Child, birth, kill_leftover

log = logging.getLogger(__name__)

TICK_SECONDS = 0.2
# The broker touches run/pump-<pid> each second; a cluster without a fresh one is deaf (engine.md 5).
PUMP_STALE_SECONDS, PUMP_FIRST_SECONDS = 10.0, 120.0
POSTGRES_CHECK_SECONDS = 1.0


class Supervisor:
    """Runs ``children`` (in start order) until told to stop.

    ``stop_order`` names them in stop order; ``postgres`` is the embedded server, or None with an own database.
    """

    def __init__(
        self,
        data: Path,
        children: Sequence[Child],
        stop_order: Sequence[str],
        *,
        postgres: Any = None,
        url: str = "",
        stop_seconds: float = 25.0,
    ) -> None:
        self.run_dir = data / "run"
        self.children = {child.name: child for child in children}
        self.stop_order = stop_order
        self.postgres = postgres
        self.url = url
        self.stop_seconds = stop_seconds
        self.stopping = False
        self._next_postgres_check = 0.0
        # By cluster: its newest beat, and when it was first seen here. A step of the wall clock ages no pump.
        self._pumped: dict[str, tuple[float, float]] = {}

    def run(self, on_tick: Callable[[], None]) -> None:
        """Start everything, keep it running and call ``on_tick`` each 0.2 s; return after a clean stop."""
        handlers = {number: signal.signal(number, self._ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._ask_to_stop)
        try:
            self._end_leftovers()
            while not self.stopping:
                self._tick()
                on_tick()
                time.sleep(TICK_SECONDS)
        finally:
            self.stop()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        """Stop the children in order, then PostgreSQL."""
        for name in self.stop_order:
            log.info("stopping %s", name)
            self.children[name].stop(self.stop_seconds)
        if self.postgres:
            log.info("stopping PostgreSQL")
            self.postgres.stop()
        (self.run_dir / "up.json").unlink(missing_ok=True)

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        # A second signal means: no grace.
        if self.stopping:
            self.stop_seconds = 0.0
            for child in self.children.values():
                if child.process:
                    child.process.kill()
        self.stopping = True

    def _tick(self) -> None:
        self._keep_postgres()
        changed = False
        for child in self.children.values():
            if (status := child.reap()) is not None:
                log.error("%s ended with status %s; it is started again", child.name, status)
                changed = True
            if child.process is None and time.monotonic() >= child.next_start and not self.stopping:
                child.start()
                changed = True
        if changed:
            self._write_state()
        self._restart_deaf_clusters()

    def _keep_postgres(self) -> None:
        if self.postgres is None or time.monotonic() < self._next_postgres_check:
            return
        if self.postgres.pid() is None:
            log.error("PostgreSQL has ended; it is started again")
            try:
                self.postgres.start()
            except ConfigurationError as error:
                log.error("PostgreSQL does not start: %s", error.detail)
        self._next_postgres_check = time.monotonic() + POSTGRES_CHECK_SECONDS

    def _restart_deaf_clusters(self) -> None:
        """Kill a worker cluster none of whose pumps beats; the next tick starts it again.

        A cluster replaces a pump that died by itself: without any it has as long as at its start, and goes on working.
        """
        now, beats = time.monotonic(), dict(self._beats())
        for child in self.children.values():
            if not child.name.startswith("workers") or child.process is None:
                continue
            newest = max((beat for group, beat in beats.values() if group == child.pid), default=None)
            known, seen = self._pumped.get(child.name, (None, 0.0))
            if newest is not None and newest != known:
                seen = now
                self._pumped[child.name] = newest, seen
            age = now - max(child.started_at, seen)
            if age > (PUMP_FIRST_SECONDS if newest is None else PUMP_STALE_SECONDS):
                log.error("%s has not pumped for %.0f s; it is started again", child.name, age)
                child.kill()
                child.next_start = 0.0

    def _beats(self) -> Iterator[tuple[int, tuple[int, float]]]:
        """Yield (pid, (process group, time of its last beat)); files of processes that are gone are deleted."""
        for path in self.run_dir.glob("pump-*"):
            try:
                pid = int(path.name.removeprefix("pump-"))
                yield pid, (os.getpgid(pid), path.stat().st_mtime)
            except ProcessLookupError:
                path.unlink(missing_ok=True)
            except (ValueError, OSError):
                continue

    def _write_state(self) -> None:
        running = {
            child.name: {"pid": child.pid, "born": birth(child.pid)} for child in self.children.values() if child.pid
        }
        state = {"pid": os.getpid(), "url": self.url, "children": running}
        draft = self.run_dir / "up.json.new"
        draft.write_text(json.dumps(state))
        draft.replace(self.run_dir / "up.json")

    def _end_leftovers(self) -> None:
        for name, child in read_state(self.run_dir.parent).get("children", {}).items():
            if child["born"] and kill_leftover(child["pid"], child["born"]):
                log.warning("ended %s (process %s), left behind by a killed `up`", name, child["pid"])


@contextlib.contextmanager
def only_one(data: Path) -> Iterator[None]:
    """Hold the data folder for one supervisor. Raises ConfigurationError when another one has it."""
    run_dir = data / "run"
    run_dir.mkdir(parents=True, exist_ok=True)
    with open(run_dir / "up.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = read_state(data)
            address = other.get("url") or "no address yet"
            raise ConfigurationError(
                f"`up` already runs on {data}: process {other.get('pid', '?')}, {address}.",
                remediation="Stop it first, or name another folder with --data and another --port.",
            ) from None
        yield


def read_state(data: Path) -> dict[str, Any]:
    """Return what the last supervisor of ``data`` wrote: pid, url, children (name → pid, born); {} when nothing."""
    try:
        return json.loads((data / "run" / "up.json").read_text())
    except (OSError, ValueError):
        return {}
