"""Emergency stops as a worker sees them: what it remembers for a second, and what it asks before a writing call."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.store.tx import Tx, plain_tx
from runtime.worker.execute import Prepared
from runtime.worker.work import REST_SECONDS, Report

_REMEMBERED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Standing:
    """A stop that stands; ``tenant_id`` None is the whole installation."""

    id: uuid.UUID
    tenant_id: uuid.UUID | None
    scope: str
    name: str
    until: datetime | None

    def covers(self, tenant_id: uuid.UUID, tool: str | None, workflow: str) -> bool:
        """Say whether a call of ``tool`` (name@version) in ``workflow`` is stopped by it."""
        if self.tenant_id is not None and self.tenant_id != tenant_id:
            return False
        if self.scope == "tool":
            return tool is not None and self.name in (tool, tool.rpartition("@")[0])
        return self.scope != "workflow" or self.name == workflow


def everywhere() -> list[Standing]:
    """Return every stop that stands, of every tenant."""
    with plain_tx() as tx:
        return [Standing(*row) for row in tx.rows("standing_stops")]


def own(tx: Tx) -> list[Standing]:
    """Return the stops that stand for the transaction's tenant, as they are now."""
    return [Standing(*row) for row in tx.rows("own_standing_stops")]


def first(standing: list[Standing], item: Prepared) -> Standing | None:
    """Return a stop that covers this call, None when it may go on."""
    claimed = item.claimed
    return first_of(standing, claimed.tenant_id, claimed.node.tool, claimed.plan.name)


def first_of(standing: list[Standing], tenant_id: uuid.UUID, tool: str | None, workflow: str) -> Standing | None:
    """Return a stop that covers a call of ``tool`` (name@version) in ``workflow``, None when it may go on."""
    return next((stop for stop in standing if stop.covers(tenant_id, tool, workflow)), None)


def held_back(item: Prepared, stop: Standing) -> Report:
    """Return the report of a step that waits for the end of a stop."""
    later = item.claimed.now + timedelta(seconds=REST_SECONDS)
    return Report(item.claimed, "yielded", cause="stopped", not_before=min(stop.until, later) if stop.until else later)


class Remembered:
    """What one worker process knows of stops, at most a second old; the control channel makes it look at once."""

    def __init__(self) -> None:
        self._standing: list[Standing] = []
        self._until = 0.0
        self._told = self._heeded = 0

    def forget(self) -> None:
        """Look again at the next question; called by the listener's thread."""
        self._told += 1

    def of(self, item: Prepared) -> Standing | None:
        """Return a stop that covers this call, None when it may go on. Raises what the database raises."""
        now = time.monotonic()
        if now >= self._until or self._heeded != self._told:
            told = self._told
            self._standing = everywhere()
            # Known only once it was read; and what is told while it is read is looked at again.
            self._heeded, self._until = told, now + _REMEMBERED_SECONDS
        return first(self._standing, item) if self._standing else None
