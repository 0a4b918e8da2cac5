"""What django-q2 calls: one function without arguments that says "there is work" (engine.md 5)."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from multiprocessing.util import Finalize

import structlog

from runtime.kernel.conf import conf
from runtime.worker.bell import bell, closing
from runtime.worker.drain import Drain
from runtime.worker.listener import Listener
from runtime.worker.session import Session

log = structlog.get_logger(__name__)

_CLOSING_SECONDS = 0.1  # how long it may take to see that the cluster closes
_SWITCH_SECONDS = 0.0005  # after which a thread of Python lets another one go on (5 ms by default)


class _Process:
    """The session, drain and listener of this process; a forked child starts its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.stop = closing
        self.rung = threading.Event()  # there may be new work: set by the listener
        self.drain = Drain(Session())
        self.listener = Listener(self)
        self.listener.start()
        # What is loaded by now stays as long as the process: a collection need not walk it, again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        # A call that begins in a slot need not wait for this thread's next look at the database.
        sys.setswitchinterval(_SWITCH_SECONDS)
        Finalize(self, close, exitpriority=10)

    def rung_again(self) -> bool:
        """Listen on for a moment; True when there may be new work.

        Who has just worked hears of more by its own ear, sooner than a ring comes through pump and queue.
        """
        until = time.monotonic() + conf().poll_seconds
        while not self.stop.is_set() and (left := until - time.monotonic()) > 0:
            if self.rung.wait(min(left, _CLOSING_SECONDS)):
                return True
        return False

    def renew(self) -> None:
        """Open a new session in place of one that is over; what the old one still held becomes somebody else's."""
        old = self.drain
        old.session.end("lease_lost")
        old.slots.shutdown(wait=False)
        self.drain = Drain(Session())


_process: _Process | None = None


def process() -> _Process:
    """Return this process's worker state, opening a session on first use."""
    global _process
    if _process is None or _process.pid != os.getpid():
        _process = _Process()
    return _process


def drain_work() -> None:
    """Work until idle. A drain that breaks gives its session up: the scheduler returns its steps at once."""
    here = process()
    while not here.stop.is_set():
        here.rung.clear()
        if here.drain.over:
            here.renew()
        try:
            here.drain.run(stop=here.stop)
        except Exception:
            log.exception("drain broke; its session ends")
            here.drain.over = True
            here.drain.session.end("drain_broke")
            raise
        if not here.drain.over and not here.rung_again():
            return


def answer() -> None:
    """Take a ring from django-q2's queue and work."""
    bell.answer()
    resting = False
    while not resting:
        heard = bell.begin()
        try:
            drain_work()
        finally:
            resting = bell.rest(heard) or closing.is_set()


def close() -> None:
    """End this process's session, if it has one: it leaves cleanly, and nobody has to find it dead."""
    if _process is not None and _process.pid == os.getpid() and not _process.drain.running:
        try:
            _process.drain.session.end()
        except Exception:
            log.warning("the session could not be ended; it is found dead")
