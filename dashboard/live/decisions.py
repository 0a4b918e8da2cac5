"""One look for all who wait for a decision: a task per event loop that reads the states of their requests at once.

It runs only while somebody waits, and asks one query a tenant each LOOK_SECONDS, however many wait.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from weakref import WeakKeyDictionary

import structlog

from approvals.queries import states_in
from dashboard.live.threads import in_thread
from runtime.store.tx import tenant_tx

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5


class Decisions:
    """Who waits for which request to leave the state it was seen in; one per event loop."""

    def __init__(self) -> None:
        self.waiting: dict[asyncio.Future[None], tuple[uuid.UUID, uuid.UUID, str]] = {}
        self._task: asyncio.Task[None] | None = None

    def left(self, tenant_id: uuid.UUID, request_id: uuid.UUID, state: str) -> asyncio.Future[None]:
        """Return what is done once the request is in another state than ``state``, or cannot be looked at.

        Cancel it to wait no more.
        """
        one = asyncio.get_running_loop().create_future()
        self.waiting[one] = (tenant_id, request_id, state)
        one.add_done_callback(lambda done: self.waiting.pop(done, None))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
        return one

    async def _run(self) -> None:
        while self.waiting:
            await asyncio.sleep(LOOK_SECONDS)
            wanted: dict[uuid.UUID, set[uuid.UUID]] = defaultdict(set)
            for tenant_id, request_id, _state in self.waiting.values():
                wanted[tenant_id].add(request_id)
            for tenant_id, ids in wanted.items():
                await self._look(tenant_id, ids)

    async def _look(self, tenant_id: uuid.UUID, ids: set[uuid.UUID]) -> None:
        found: dict[uuid.UUID, str] = {}
        try:
            found = await in_thread(_read, tenant_id, ids)
        except Exception as problem:
            # Who asks again is told why; until then what they have seen is true of that moment.
            log.info("decisions cannot be looked at", tenant=str(tenant_id), problem=str(problem)[:300])
        for one, (tenant, request_id, state) in list(self.waiting.items()):
            if tenant == tenant_id and request_id in ids and found.get(request_id) != state and not one.done():
                one.set_result(None)


def _read(tenant_id: uuid.UUID, ids: set[uuid.UUID]) -> dict[uuid.UUID, str]:
    with tenant_tx(tenant_id) as tx:
        return states_in(tx, ids)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Decisions] = WeakKeyDictionary()


def decisions() -> Decisions:
    """Return what waits in the running event loop."""
    return _loops.setdefault(asyncio.get_running_loop(), Decisions())
