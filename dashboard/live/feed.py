"""The feed: one task per process that looks where the watched runs stand and tells their groups what moved.

It runs only while somebody watches, and looks at nobody else's runs: a query a tenant and tick for the runs' ``seq``,
then one for each run that moved. ``run_seq`` is given out under the run's lock, gapless and in commit order, so what
lies at or below a seq that was read is all there; the transaction ids that a reader of the *whole* ledger must respect
(a late commit of another run) do not matter for one run. One small message goes out per run and tick, whatever
happened in between, and once a second a sign of life, by which a picture knows how old it is.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
import structlog
from channels.layers import get_channel_layer
from django.db import Error as DjangoError
from django.db import connections

from runtime.api.http import dump
from runtime.kernel.errors import QuarterdeckError, Unavailable
from runtime.machine.law import RUN_ENDED
from runtime.queries.graphs import heads_in, patch_in
from runtime.store.tx import is_away, tenant_tx

log = structlog.get_logger(__name__)

TICK_SECONDS = 0.04
# When every watched run has ended, little can happen any more: a forced success, late facts.
ENDED_TICK_SECONDS = 0.5
ALIVE_SECONDS = 1.0
AWAY_SECONDS = 1.0
# A run that cannot be read is left alone so long: its readers hear no sign of life and look for themselves.
BROKEN_SECONDS = 5.0


Moved = list[tuple[uuid.UUID, dict[str, Any]]]


def group_of(run_id: uuid.UUID) -> str:
    """Return the channel group of those who watch a run."""
    return f"run.{run_id.hex}"


@dataclass(slots=True)
class Watched:
    """A run somebody watches: what was sent of it, and when."""

    tenant_id: uuid.UUID
    seq: int
    watchers: int = 0
    told_at: float = 0.0
    broken_until: float = 0.0


class Feed:
    """Watches runs and publishes their patches; one per event loop."""

    def __init__(self) -> None:
        self.watched: dict[uuid.UUID, Watched] = {}
        self._task: asyncio.Task[None] | None = None
        # A thread of its own: a tick never waits behind somebody's snapshot.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="feed")

    def watch(self, tenant_id: uuid.UUID, run_id: uuid.UUID, seq: int) -> None:
        """Publish what moves in a run after ``seq``; call :meth:`unwatch` as often.

        Join the group first and read the run then: what commits in between comes as a patch that overlaps.
        """
        watched = self.watched.setdefault(run_id, Watched(tenant_id, seq))
        watched.watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def unwatch(self, run_id: uuid.UUID) -> None:
        """Stop watching; nobody left means no tick."""
        watched = self.watched.get(run_id)
        if watched is not None:
            watched.watchers -= 1
            if watched.watchers <= 0:
                del self.watched[run_id]

    async def _run(self) -> None:
        # Who begins to watch while the connections close finds a task at work and starts none: looked at again.
        while self.watched:
            await self._publish()
            await asyncio.get_running_loop().run_in_executor(self._thread, connections.close_all)

    async def _publish(self) -> None:
        """Look and tell, tick by tick, as long as somebody watches."""
        loop = asyncio.get_running_loop()
        away = False
        while self.watched:
            begun = loop.time()
            try:
                moved, ended = await loop.run_in_executor(self._thread, self._read, self._wanted())
                await self._tell(moved)
            except Exception as problem:
                # Whatever it is, the database's or the channel layer's: nobody would start this task again while the
                # same readers stay. What was not sent is still wanted, and is read anew.
                if not away:
                    log.warning(
                        "the live feed stands still", problem=str(problem)[:300], exc_info=not _is_away(problem)
                    )
                away = True
                await asyncio.sleep(AWAY_SECONDS)
                continue
            if away:
                log.info("the live feed goes on")
            away = False
            tick = ENDED_TICK_SECONDS if ended.issuperset(self.watched) else TICK_SECONDS
            await asyncio.sleep(max(0.002, tick - (loop.time() - begun)))

    def _wanted(self) -> dict[uuid.UUID, list[tuple[uuid.UUID, int]]]:
        """Return tenant → (run, seq) of what is watched."""
        wanted: dict[uuid.UUID, list[tuple[uuid.UUID, int]]] = defaultdict(list)
        now = time.monotonic()
        for run_id, one in self.watched.items():
            if one.broken_until <= now:
                wanted[one.tenant_id].append((run_id, one.seq))
        return wanted

    def _read(self, wanted: dict[uuid.UUID, list[tuple[uuid.UUID, int]]]) -> tuple[Moved, set[uuid.UUID]]:
        """Return (run, patch) of the runs that moved, and which of all have ended. In the feed's thread."""
        moved: Moved = []
        ended: set[uuid.UUID] = set()
        for tenant_id, runs in wanted.items():
            at = [run_id for run_id, _ in runs]
            try:
                with tenant_tx(tenant_id, deferred=True) as tx:
                    heads = heads_in(tx, at)
                    ended |= {run_id for run_id, (_, status) in heads.items() if status in RUN_ENDED}
                    for run_id, seq in runs:
                        if run_id in heads and heads[run_id][0] > seq:
                            at = [run_id]
                            moved.append((run_id, patch_in(tx, run_id, seq)))
            except Exception as problem:
                connections.close_all()
                if isinstance(problem, Unavailable | DjangoError | OSError) or is_away(problem):
                    raise
                # The others' readers do not wait for it; what was not read of this tenant is read at the next tick.
                log.exception("a run cannot be read", tenant=str(tenant_id), runs=[str(one) for one in at[:5]])
                for run_id in at:
                    if (one := self.watched.get(run_id)) is not None:
                        one.broken_until = time.monotonic() + BROKEN_SECONDS
        return moved, ended

    async def _tell(self, moved: Moved) -> None:
        layer, now = get_channel_layer(), time.monotonic()
        for run_id, patch in moved:
            one = self.watched.get(run_id)
            if one is None or patch["run"]["seq"] <= one.seq:
                continue
            message = patch_message(one.seq + 1, patch)
            text = dump(message).decode()
            event = {"type": "run.patch", **{name: message[name] for name in ("from_seq", "to_seq")}, "text": text}
            await layer.group_send(group_of(run_id), event)
            one.seq, one.told_at = message["to_seq"], now
        for run_id, one in list(self.watched.items()):
            if now - one.told_at >= ALIVE_SECONDS and one.broken_until <= now:
                text = dump({"type": "tick", "run_id": run_id, "seq": one.seq}).decode()
                await layer.group_send(group_of(run_id), {"type": "run.tick", "text": text})
                one.told_at = now


def _is_away(problem: Exception) -> bool:
    """Return whether a problem is one that passes: the database or the layer's server cannot be reached."""
    return isinstance(problem, psycopg.Error | DjangoError | QuarterdeckError | OSError)


def patch_message(from_seq: int, patch: dict[str, Any]) -> dict[str, Any]:
    """Return a patch as it is sent: the run and the steps as they stand at ``to_seq``, moved since ``from_seq``.

    It holds whole rows, so one that overlaps what is known already does no harm; one that begins later leaves a gap.
    """
    run = patch["run"]
    return {
        "type": "patch",
        "run_id": run["id"],
        "from_seq": from_seq,
        "to_seq": run["seq"],
        "run": run,
        "steps": patch["steps"],
        "at": patch["at"],
    }


_feeds: WeakKeyDictionary[asyncio.AbstractEventLoop, Feed] = WeakKeyDictionary()


def feed() -> Feed:
    """Return the feed of the running event loop."""
    return _feeds.setdefault(asyncio.get_running_loop(), Feed())
