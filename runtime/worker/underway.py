"""The calls in a worker's slots, the asks to end them (C5.5), and how far they are (C2.8)."""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict

from runtime.tools.showing import NOBODY, Showing
from runtime.worker.execute import Prepared
from runtime.worker.lease import Lease
from runtime.worker.places import Places
from runtime.worker.work import Report

# Every worker hears every ask of the installation; the newest are kept for calls that are about to begin.
_MOST_KEPT = 1024


class UnderWay(dict[uuid.UUID, Prepared]):
    """Calls by step. The drain's thread puts them in and takes them out, the listener's thread asks them to end."""

    def __init__(self, lease: Lease | None = None) -> None:
        super().__init__()
        self.places = Places(lease)
        self._inline: Showing = NOBODY
        self.missed = False  # nobody listened for a while: asks to end may have passed by
        self._lock = threading.Lock()
        self._asked: OrderedDict[uuid.UUID, int] = OrderedDict()

    def begin(self, prepared: Prepared) -> None:
        """Take a call in that is about to begin; one that was asked to end meanwhile is told at once."""
        prepared.showing = self.places.take(prepared.claimed)
        with self._lock:
            older = self.get(prepared.claimed.step_id)
            self[prepared.claimed.step_id] = prepared
            self._tell(prepared)
        if older is not None:  # its step was lost and claimed here again: the newer call is the one to show
            self.places.leave(older.showing, None)

    def tell(self, prepared: Prepared) -> None:
        """Tell a call that begins outside of the slots, in the drain's own thread, whether it was asked to end."""
        prepared.showing = self._inline = self.places.take_inline(prepared.claimed)
        if self._asked:
            with self._lock:
                self._tell(prepared)

    def over(self, report: Report) -> Report:
        """Let go of the call in the drain's own thread; returns what became of it."""
        self.places.leave_inline(self._inline)
        self._inline = NOBODY
        return report

    def end(self, item: Report | Prepared) -> None:
        """Let go of a call that is over, by what came of it."""
        with self._lock:
            prepared = self.get(item.claimed.step_id)
            mine = prepared is not None and prepared.claimed.owner_epoch == item.claimed.owner_epoch
            if mine:
                del self[item.claimed.step_id]
        if prepared is not None and mine:
            self.places.leave(prepared.showing, item if isinstance(item, Report) else None)

    def ask(self, step_id: uuid.UUID, owner_epoch: int) -> None:
        """Ask a call to end, if it is of this epoch or an older one; one that has not begun yet finds it then.

        Its step was killed, or its run cancelled. A child process is killed after a grace.
        """
        with self._lock:
            prepared = self.get(step_id)
            if prepared is None:
                self._asked[step_id] = owner_epoch
                if len(self._asked) > _MOST_KEPT:
                    self._asked.popitem(last=False)
            elif prepared.claimed.owner_epoch <= owner_epoch:
                prepared.cancel.set()

    def _tell(self, prepared: Prepared) -> None:
        if prepared.claimed.owner_epoch <= self._asked.pop(prepared.claimed.step_id, -1):
            prepared.cancel.set()
