"""The calls in a worker's hands as its heartbeat shows them: attempt, progress, checkpoint, estimate (C2.8).

The worker writes one record a call into its lease file when the call begins and when its tool tells how far it is; the
heartbeat process reads them at each renewal. No statement and no round trip is made for it, and a worker whose
interpreter hangs still shows what it hangs in. Numbers, ids and a stage's code only: nothing of a payload.
"""

from __future__ import annotations

import struct
import threading
import time
import uuid
import zlib
from collections import OrderedDict
from typing import Any, NamedTuple

import structlog

from runtime.kernel.conf import conf
from runtime.tools.showing import MAX_STAGE, NOBODY, Showing, Told
from runtime.worker.lease import HEAD, Lease, lease_path
from runtime.worker.work import Claimed, Report

log = structlog.get_logger(__name__)

# Attempt (0: the place is free), process of the tool, checkpoint, reports so far; tenant, step; when the call began,
# how long such calls take (0: nobody knows), when it reported last; done, total (0: nobody knows); stage.
_FORM = struct.Struct(f"<iiqq16s16sddddd{MAX_STAGE}s")
_SUM = struct.Struct("<I")
SIZE = _FORM.size + _SUM.size
_FREE, _NOTHING = bytes(4), Told(0.0, None, None)
_MOST_TOOLS, _RECENT = 512, 8
_FOREVER = 1e8  # seconds: an end in years is none
_SLOW, _SLOW_SECONDS = 3.0, 1.0  # times as long as is usual, and that long at least


def room() -> int:
    """Return how many bytes a lease file needs for a worker's calls: one a slot, and one in the drain's thread."""
    return (conf().slots + 1) * SIZE


class Place(Showing):
    """One call's record. What a call says after it was given up on, by a thread left behind, is shown nowhere."""

    __slots__ = ("_at", "_claimed", "_last", "_pid", "_places", "_refused", "_seq", "_started", "_told", "_usual")

    def __init__(self, places: Places, at: int, claimed: Claimed, usual: float) -> None:
        self._places, self._at, self._claimed, self._usual = places, at, claimed, usual
        self._pid, self._seq, self._refused = 0, 0, False
        self._started = self._last = time.monotonic()
        self._told = _NOTHING
        self._write()

    def put(self, told: Told) -> None:
        """Show the latest report in place of the one before."""
        with self._places.lock:
            self._told, self._last = told, time.monotonic()
            self._seq += 1
            self._write()

    def child(self, pid: int) -> None:
        """Show the process of the tool: its time and memory are the call's."""
        with self._places.lock:
            self._pid = pid
            self._write()

    def refuse(self, why: str) -> None:
        """Tell it once a call."""
        if not self._refused:
            self._refused = True
            log.warning("a tool's report of its progress is none", tool=self._claimed.node.tool, why=why)

    def leave(self) -> int:
        """Take no more reports; returns which place is free now."""
        at, self._at = self._at, -1
        return at

    def _write(self) -> None:
        if self._at < 0:
            return
        claimed, told = self._claimed, self._told
        body = _FORM.pack(
            claimed.attempt, self._pid, claimed.seq, self._seq, claimed.tenant_id.bytes, claimed.step_id.bytes,
            self._started, self._usual, self._last, told.done, told.total or 0.0, (told.stage or "").encode(),
        )  # fmt: skip
        self._places.write(self._at, body + _SUM.pack(zlib.crc32(body)))


class Places:
    """A worker's places; the drain's thread gives them out and takes them back."""

    def __init__(self, lease: Lease | None = None) -> None:
        self._lease = lease
        self._free = list(reversed(range(lease.room // SIZE if lease is not None else 0)))
        self._usual = Usual()
        self.lock = threading.Lock()  # between a call's begin and end and what its threads tell of it

    def take(self, claimed: Claimed) -> Showing:
        """Show a call that begins."""
        return Place(self, self._free.pop(), claimed, self._usual.of(claimed)) if self._free else NOBODY

    def take_inline(self, claimed: Claimed) -> Showing:
        """Show a call of microseconds: nobody asks how long it takes, unless it hangs."""
        return Place(self, self._free.pop(), claimed, 0.0) if self._free else NOBODY

    def leave_inline(self, place: Showing) -> None:
        """Be ready for the next one. The record stays until then: no page shows a step that has ended."""
        if isinstance(place, Place):
            with self.lock:  # a thread of the tool may be writing right now
                self._free.append(place.leave())

    def leave(self, place: Showing, report: Report | None) -> None:
        """Show a call no longer; one that ended well says how long such calls take."""
        if isinstance(place, Place):
            with self.lock:
                at = place.leave()
                self.write(at, _FREE)
                self._free.append(at)
        if report is not None and report.outcome == "succeeded" and report.seconds > 0:
            self._usual.learn(report)

    def write(self, at: int, data: bytes) -> None:
        """Write a place's record."""
        if self._lease is not None:
            self._lease.show(at * SIZE, data)


class Usual:
    """How long a tool's calls took here lately, in seconds, by tenant and tool: no tenant's times are another's."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[uuid.UUID, str | None], tuple[int, float]] = OrderedDict()

    def of(self, claimed: Claimed) -> float:
        """Return what is usual for such a step; 0 when this worker has not seen one end."""
        return self._known.get((claimed.tenant_id, claimed.node.tool), (0, 0.0))[1]

    def learn(self, report: Report) -> None:
        """Take a call in that ended well; the latest count for an eighth."""
        key = (report.claimed.tenant_id, report.claimed.node.tool)
        count, mean = self._known.pop(key, (0, 0.0))
        count = min(count + 1, _RECENT)
        self._known[key] = count, mean + (report.seconds - mean) / count
        if len(self._known) > _MOST_TOOLS:
            self._known.popitem(last=False)


class Seen(NamedTuple):
    """A record as the heartbeat reads it; times are on the host's monotonic clock."""

    attempt: int
    pid: int
    checkpoint: int
    seq: int
    tenant: bytes
    step: bytes
    started: float
    usual: float
    last: float
    done: float
    total: float
    stage: bytes

    def eta(self, now: float) -> float | None:
        """Return the seconds to the end: by what is done, else by what is usual; None when neither tells.

        What has taken longer than is usual says nothing of its end. A tool that stands still is expected ever later.
        """
        took = max(0.0, now - self.started)
        if self.total and self.done:
            left = took * (self.total - self.done) / self.done
            return left if left < _FOREVER else None
        return self.usual - took if self.usual > took else None

    def standing(self, now: float) -> str | None:
        """Return how a call does not come on although its worker lives: ``quiet`` or ``slow`` (``queries.in_hand``)."""
        if self.seq:
            return "quiet" if now - self.last >= conf().stall_seconds else None
        late = self.usual and now - self.started >= max(_SLOW_SECONDS, _SLOW * self.usual)
        return "slow" if late else None

    def shown(self, now: float) -> dict[str, Any]:
        """Return it as the worker session's row keeps it; seconds are counted at the beat."""
        known = self.seq > 0
        eta = self.eta(now)
        return {
            "tenant": str(uuid.UUID(bytes=self.tenant)),
            "step": str(uuid.UUID(bytes=self.step)),
            "attempt": self.attempt,
            "checkpoint": self.checkpoint,
            "seq": self.seq,
            "done": self.done if known else None,
            "total": self.total or None,
            "stage": self.stage.rstrip(b"\0").decode("ascii") or None,
            "standing": self.standing(now),
            "quiet_s": round(max(0.0, now - self.last), 1),
            "usual_s": round(self.usual, 3) or None,
            "eta_s": None if eta is None else round(eta, 1),
        }


def read_places(session_id: uuid.UUID) -> list[Seen]:
    """Return the calls in the hands of a worker of this host. One that is being written this instant is left out."""
    try:
        data = lease_path(session_id).read_bytes()[HEAD:]
    except FileNotFoundError:
        return []
    found = []
    for at in range(0, len(data) - SIZE + 1, SIZE):
        body = data[at : at + _FORM.size]
        if body[:4] != _FREE and _SUM.unpack_from(data, at + _FORM.size)[0] == zlib.crc32(body):
            found.append(Seen(*_FORM.unpack(body)))
    return found
