"""Lanes of messages that leave: one for all mails, one for each other destination, several sent at once (B5.3, C2.4).

A receiver that is slow or silent takes the time of its own lane. One that fails is asked again less and less often, by
one message; the others for it wait together and spend none of their own tries. Mails have a thread to themselves.
What a process remembers of a destination is lost with it: the next one asks once more.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from typing import Any

import orjson
import structlog
from django.db import connections

from runtime.kernel import seams
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.each import attempt, attempt_runs, by_tenant, due

log = structlog.get_logger(__name__)

# How many webhooks are posted at once; how many messages one lane holds, beyond which they wait in the database.
_AT_ONCE = 8
_LANE_LENGTH = 200
_BUSY_SECONDS = 5.0
# How long a lane keeps its thread: receivers that are slow, however many, leave no other without a turn.
_TURN_SECONDS = 15.0
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 5.0, 3600.0
_REMEMBERED = 10_000
# A turn looks at so many pages of what is due.
_PAGES = 20

# A destination: the tenant's, by the name that the topic's composer gives it; None is the way of all mails.
Destination = tuple[uuid.UUID, str] | None


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one message: ``outcome`` to be counted, and why its destination takes nothing now ("": it may)."""

    outcome: str = ""
    away: str = ""
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A destination that failed: ``failures`` in a row, and nothing is sent there before ``until`` (database time)."""

    failures: int
    until: datetime
    problem: str


@dataclass(order=True, slots=True)
class _Waiting:
    """A message in a lane: what was not tried yet goes first, so that one that fails by itself holds up no other."""

    tried: bool
    created_at: datetime
    tenant_id: uuid.UUID
    message_id: uuid.UUID
    old: bool = field(compare=False)
    given_up: str = field(default="", compare=False)


# Sends one message: tenant, message, why it is given up unsent ("": it is sent), seconds until its destination's next.
Deliver = Callable[[uuid.UUID, uuid.UUID, str, float], Sent]

_lock = threading.Lock()
_held: dict[Destination, Held] = {}


class Relay:
    """Hands what is due to lanes that ``deliver`` it; any number of relays may run at once."""

    def __init__(self, deliver: Deliver, *, page: int, max_age_s: float) -> None:
        self._deliver, self._page, self._max_age_s = deliver, page, max_age_s
        self._mails = ThreadPoolExecutor(1, thread_name_prefix="mails")
        self._others = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="webhooks")
        self._lanes: dict[Destination, list[_Waiting]] = {}
        self._running: set[Future[None]] = set()
        self._known: set[uuid.UUID] = set()
        self._done: Counter[str] = Counter()
        self._stopping = False

    def run_once(self) -> dict[str, int]:
        """Hand over what is due and wait for none of it; returns what the lanes did since the turn before."""
        with _lock:
            seen = set(self._known)
        for _page in range(_PAGES):
            rows = due("outbox", "due_messages", self._page, skip=seen)
            if not rows:
                break
            seen.update(row[1] for row in rows)
            for tenant_id, found in by_tenant(rows).items():
                attempt("outbox", tenant_id, partial(self._route, tenant_id, [row[0] for row in found]))
        return self._counts()

    def wait(self) -> dict[str, int]:
        """Wait until the lanes are empty; returns what they did. Raises what says that the database is away."""
        while True:
            with _lock:
                running, self._running = self._running, set()
            if not running:
                return self._counts()
            for one in running:
                one.result()

    def close(self) -> None:
        """Begin no other message, wait for those that are being sent, and end the threads."""
        with _lock:
            self._stopping = True
        for pool in (self._mails, self._others):
            pool.shutdown(cancel_futures=True)

    def _counts(self) -> dict[str, int]:
        with _lock:
            done, self._done = self._done, Counter()
        return dict(done)

    def _route(self, tenant_id: uuid.UUID, ids: list[uuid.UUID]) -> int:
        """Bring messages into the lanes of their destinations; what must wait for its destination waits in the row."""
        ready: list[tuple[Destination, Held | None, _Waiting]] = []
        with tenant_tx(tenant_id) as tx:
            now = tx.now()
            for message_id, topic, payload, tried, created_at, old in tx.rows("messages_due", (self._max_age_s, ids)):
                destination = _destination(tenant_id, topic, payload)
                held, waiting = _held.get(destination), _Waiting(tried, created_at, tenant_id, message_id, old)
                if held is not None and held.until > now:
                    if not old:
                        seconds = (held.until - now).total_seconds()
                        tx.send("messages_wait", (seconds, held.problem, [message_id]))
                        continue
                    waiting.given_up = held.problem
                if len(self._lanes.get(destination, ())) >= _LANE_LENGTH:
                    tx.send("messages_wait", (_BUSY_SECONDS, None, [message_id]))
                    continue
                ready.append((destination, held, waiting))
        for one in ready:
            self._enter(*one)
        return len(ready)

    def _enter(self, destination: Destination, held: Held | None, waiting: _Waiting) -> None:
        with _lock:
            failed_since = _held.get(destination) not in (None, held)
            if self._stopping or failed_since or waiting.message_id in self._known:
                return  # it stays due, and the next turn sees what is new
            self._known.add(waiting.message_id)
            if destination not in self._lanes:
                self._lanes[destination] = []
                self._begin(destination)
            heappush(self._lanes[destination], waiting)

    def _begin(self, destination: Destination) -> None:
        pool = self._mails if destination is None else self._others
        self._running = {one for one in self._running if not one.done()}
        self._running.add(pool.submit(self._run, destination))

    def _run(self, destination: Destination) -> None:
        """Send what is in a lane, one after the other, until it is empty or other lanes have their turn."""
        turn_ends = time.monotonic() + _TURN_SECONDS
        try:
            while (waiting := self._next(destination, turn_ends)) is not None:
                work = partial(self._send, destination, waiting)
                attempt_runs("outbox", waiting.tenant_id, [(waiting.message_id,)], work)
                with _lock:
                    self._known.discard(waiting.message_id)
        except Exception as problem:  # the database is away: what is in the lane stays due
            log.warning("a lane of messages ends", problem=str(problem)[:300])
            with _lock:
                self._drop(destination, waiting)
            raise
        finally:
            connections.close_all()

    def _next(self, destination: Destination, turn_ends: float) -> _Waiting | None:
        with _lock:
            if self._stopping or not self._lanes[destination]:
                self._drop(destination, None)
                return None
            if time.monotonic() > turn_ends:
                self._begin(destination)  # behind the lanes that wait for a thread
                return None
            return heappop(self._lanes[destination])

    def _drop(self, destination: Destination, sending: _Waiting | None) -> None:
        left = self._lanes.pop(destination, [])
        self._known.difference_update(one.message_id for one in ([sending] if sending else []) + left)

    def _send(self, destination: Destination, waiting: _Waiting, _rows: list[tuple[Any, ...]]) -> int:
        before = _held.get(destination)
        failures = 1 + (before.failures if before is not None else 0)
        wait = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(failures - 1, 30))
        sent = self._deliver(waiting.tenant_id, waiting.message_id, waiting.given_up, wait)
        if sent.outcome:
            with _lock:
                self._done[sent.outcome] += 1
        if destination is not None and not waiting.given_up:
            if sent.away and sent.now is not None:
                self._hold(destination, Held(failures, sent.now + timedelta(seconds=wait), sent.away), wait)
            elif sent.outcome == "sent":
                with _lock:
                    _held.pop(destination, None)
        return 1

    def _hold(self, destination: Destination, held: Held, wait: float) -> None:
        """Let everything for a destination that failed wait together; what has waited for too long is given up."""
        with _lock:
            if len(_held) >= _REMEMBERED:
                now = held.until - timedelta(seconds=wait)
                for one in [one for one, other in _held.items() if other.until < now]:
                    del _held[one]
            _held[destination] = held
            lane = self._lanes[destination]
            together, lane[:] = [one for one in lane if not one.old], [one for one in lane if one.old]
            for waiting in lane:
                waiting.given_up = held.problem
        ids = [one.message_id for one in together]
        try:
            if ids:
                with tenant_tx(together[0].tenant_id) as tx:
                    tx.send("messages_wait", (wait, held.problem, ids))
        finally:
            with _lock:
                self._known.difference_update(ids)


def _destination(tenant_id: uuid.UUID, topic: str, payload: Any) -> Destination:
    """Return where a message goes, before it is made; what cannot be read waits with its own topic."""
    try:
        name = seams.destination_of(topic, orjson.loads(payload) if isinstance(payload, str | bytes) else payload)
    except Exception:  # its composer will say what is wrong with it
        name = f"topic:{topic}"
    return None if name is None else (tenant_id, name)
