"""A worker process's ear while it is busy: new work for its free slots, and kills of what it runs."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING

import psycopg
import structlog

from runtime.actions.base import CONTROL_CHANNEL, WORK_CHANNEL
from runtime.actions.stops import STOPS_CHANGED
from runtime.store.listen import listening

if TYPE_CHECKING:
    from runtime.worker.entry import _Process

log = structlog.get_logger(__name__)


class Listener(threading.Thread):
    """Passes notifications on to the process's current drain; reconnects for ever."""

    def __init__(self, process: _Process) -> None:
        super().__init__(name="listener", daemon=True)
        self.process = process

    def run(self) -> None:
        while not self.process.stop.is_set():
            try:
                with listening(WORK_CHANNEL, CONTROL_CHANNEL) as connection:
                    self._look_back()
                    while not self.process.stop.is_set():
                        for notice in connection.notifies(timeout=5.0, stop_after=64):
                            self._heard(notice.channel, notice.payload)
            except psycopg.Error:
                time.sleep(1.0)
            except Exception:
                # Nobody starts this thread again: without it no kill and no stop is heard.
                log.exception("listener")
                time.sleep(1.0)

    def _look_back(self) -> None:
        """Let the drain look for what was said while nobody listened."""
        drain = self.process.drain
        drain.running.missed, drain.next_compare = True, 0.0
        drain.wake()

    def _heard(self, channel: str, payload: str) -> None:
        if channel == WORK_CHANNEL:
            self.process.rung.set()
            self.process.drain.wake()
            return
        verb, _, rest = payload.partition(":")
        if verb == "kill":
            step_id, _, epoch = rest.partition(":")
            try:
                asked = uuid.UUID(step_id), int(epoch)
            except ValueError:
                # Every login of the database may notify; what nobody understands asks for nothing.
                log.warning("a notice was not understood", channel=channel, payload=payload[:100])
                return
            self.process.drain.running.ask(*asked)
        elif verb == STOPS_CHANGED:
            self.process.drain.stops.forget()
