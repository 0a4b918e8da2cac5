"""Handing events to subscribers, each behind a cursor of its own (engine.md 7, B5.3).

The stream of a tenant is read by (xact, run_id, seq), below the oldest transaction that is still open: a late commit is
never passed over. An event is handed over in the transaction that moves the cursor, so what a handler writes in the
database is written once; what it does outside may be done again after a crash, and is told apart by ``event_id``.
"""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import Any, NamedTuple

import orjson
import psycopg
import structlog

from runtime.kernel.errors import Unavailable
from runtime.kernel.seams import Subscriber
from runtime.store import directory
from runtime.store.tx import Tx, is_away, tenant_tx
from runtime.worker.maintenance.each import attempt

log = structlog.get_logger(__name__)

BATCH = 200
# So many batches of one tenant in a turn; then the others are asked.
_TURN = 20
# How many transactions' events are looked at at once: few where there are events, more and more where there are none.
_NARROW, _WIDE = 500, 1_000_000
_LONGEST_WAIT_SECONDS = 60.0
# The database gives up a transaction that stands still for longer (QUARTERDECK_IDLE_TRANSACTION_SECONDS).
_SLOW_SECONDS = 10.0
_NAMES = (
    "xact", "run_id", "seq", "type", "step_id", "node", "execution_version", "attempt", "owner_epoch", "version",
    "from_status", "to_status", "cause", "actor", "reason", "payload", "input_sha256", "output_sha256", "manifest_id",
    "schema_version", "occurred_at",
)  # fmt: skip


class Position(NamedTuple):
    """All events up to and with this one were handed over; without a run, all of earlier transactions."""

    xact: int
    run_id: uuid.UUID | None
    seq: int


class Reader:
    """Reads the events of every tenant for one subscriber. Several may run at once: an event is handed over by one."""

    def __init__(self, subscriber: Subscriber) -> None:
        self.subscriber = subscriber
        self._windows: dict[uuid.UUID, int] = {}
        self._failures: dict[uuid.UUID, tuple[int, float]] = {}  # how often in a row, and until when it rests

    def run_once(self) -> int:
        """Hand over what is there; returns how many events. A tenant whose event fails rests, the others go on."""
        name, handled = f"subscriber {self.subscriber.name}", 0
        for tenant in directory.all_tenants():
            resting = self._failures.get(tenant.id, (0, 0.0))[1] > time.monotonic()
            if not tenant.suspended and not resting:
                handled += attempt(name, tenant.id, partial(self._read, tenant.id))
        return handled

    def _read(self, tenant_id: uuid.UUID) -> int:
        handled = 0
        for _ in range(_TURN):
            position, rows, end = self._next(tenant_id)
            for row in rows:
                after = Position(*row[:3])
                if not self._hand_over(tenant_id, position, after, row):
                    return handled
                position, handled = after, handled + 1
            if end is not None and end != position:
                self._move(tenant_id, position, end)
            if end is not None and end.xact >= self._horizon:
                break
        return handled

    def _next(self, tenant_id: uuid.UUID) -> tuple[Position, list[tuple[Any, ...]], Position | None]:
        """Return where the cursor stands, the next events, and where it stands after them if those were all so far."""
        window = self._windows.get(tenant_id, _NARROW)
        with tenant_tx(tenant_id) as tx:
            # Read before the events: whatever commits between the two belongs to the next turn.
            self._horizon: int = tx.rows("stream_horizon")[0][0]
            position = self._position(tx, self._horizon)
            upto = min(self._horizon, position.xact + window)
            rows = tx.rows(
                "stream_events",
                {**position._asdict(), "upto": upto, "types": self.subscriber.types, "most": BATCH},
            )
        self._windows[tenant_id] = _NARROW if rows else min(_WIDE, window * 4)
        return position, rows, Position(upto, None, 0) if len(rows) < BATCH else None

    def _position(self, tx: Tx, horizon: int) -> Position:
        """Return where the cursor stands; a new one before the first event there is."""
        name = self._cursor(tx)
        row = tx.one("subscriber_position", (name,))
        if row is None or row[0] > horizon:
            if row is not None:
                # Transactions are counted anew where a backup was restored: all is handed over again.
                log.warning("a subscriber begins again", subscriber=name, stood=row[0], horizon=horizon)
            tx.send("subscriber_begins", {"name": name, "horizon": horizon})
            row = tx.one("subscriber_position", (name,))
        assert row is not None
        return Position(*row)

    def _hand_over(self, tenant_id: uuid.UUID, before: Position, after: Position, row: tuple[Any, ...]) -> bool:
        """Let the handler have one event, and move the cursor with what it writes. False: go on at a later turn."""
        event = dict(zip(_NAMES, row, strict=True))
        if isinstance(event["payload"], str | bytes):
            event["payload"] = orjson.loads(event["payload"])
        event_id = f"{after.run_id}:{after.seq}"
        begun = time.monotonic()
        try:
            with tenant_tx(tenant_id) as tx:
                held = tx.one("subscriber_hold", (self._cursor(tx),))
                if held is None or Position(*held) != before:
                    return False  # another process reads for it right now, or has
                self.subscriber.handler({**event, "event_id": event_id, "tenant_id": tenant_id})
                tx.send("subscriber_moves", (*after, self._cursor(tx)))
        except (Unavailable, psycopg.Error) as problem:
            if (isinstance(problem, Unavailable) or is_away(problem)) and time.monotonic() - begun < _SLOW_SECONDS:
                raise
            self._failed(tenant_id, before, after, event_id)
            return False
        except Exception:
            self._failed(tenant_id, before, after, event_id)
            return False
        self._failures.pop(tenant_id, None)
        return True

    def _failed(self, tenant_id: uuid.UUID, before: Position, after: Position, event_id: str) -> None:
        """Rest for a while, and say by the cursor which event it was: alerts tell of one that stands before it."""
        count = self._failures.get(tenant_id, (0, 0.0))[0] + 1
        wait = min(_LONGEST_WAIT_SECONDS, 0.5 * 2.0 ** min(count, 10))
        self._failures[tenant_id] = count, time.monotonic() + wait
        log.exception("a subscriber fails", subscriber=self.subscriber.name, event=event_id, times=count)
        stands = Position(after.xact, after.run_id, after.seq - 1)
        with tenant_tx(tenant_id) as tx:
            held = tx.one("subscriber_hold", (self._cursor(tx),))
            if held is not None and Position(*held) == before:
                tx.send("subscriber_stands", (*stands, self._cursor(tx)))

    def _move(self, tenant_id: uuid.UUID, before: Position, after: Position) -> None:
        with tenant_tx(tenant_id) as tx:
            held = tx.one("subscriber_hold", (self._cursor(tx),))
            if held is not None and Position(*held) == before:
                tx.send("subscriber_moves", (*after, self._cursor(tx)))

    def _cursor(self, tx: Tx) -> str:
        return f"{self.subscriber.name}/{tx.tenant_id}"
