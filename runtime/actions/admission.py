"""Whether new work is let in: above the high-water mark it is refused, low priority first (A4.2, A4.4).

Accepted work is safe whatever happens here. How much waits is counted once a second in each process at most, so that a
refusal costs next to nothing when it is needed most.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field

from runtime.kernel.conf import conf
from runtime.kernel.errors import QueueFull
from runtime.store.tx import Tx, plain_rows

_FRESH_SECONDS = 1.0
# Up to which share of the mark work of at least this priority is let in.
_SHARES = ((40, 1.0), (0, 0.8), (-100, 0.5))
_KNOWN_TENANTS = 4096


@dataclass(slots=True)
class _Depth:
    """How many steps waited when it was last counted, and how fast that fell."""

    steps: int = 0
    until: float = 0.0
    counted: float = 0.0
    rate: float = 0.0

    def take(self, steps: int) -> None:
        now = time.monotonic()
        if self.counted:
            self.rate = (self.steps - steps) / max(now - self.counted, 0.001)
        self.steps, self.counted, self.until = steps, now, now + _FRESH_SECONDS

    def retry_after(self, mark: float) -> float:
        """Return when there may be room again: by how fast the queue falls, between one second and a minute."""
        over = self.steps - mark
        return min(60.0, max(1.0, over / self.rate)) if self.rate > 0 else 15.0


@dataclass(slots=True)
class _Seen:
    everybody: _Depth = field(default_factory=_Depth)
    tenants: dict[uuid.UUID | None, _Depth] = field(default_factory=dict)


_seen = _Seen()


def forget() -> None:
    """Count again at the next question."""
    _seen.everybody.until = 0.0
    _seen.tenants.clear()


def check_installation(priority: int = 100) -> None:
    """Raise QueueFull when the whole installation has too much waiting for work of this priority.

    Without a priority: when it is full for everybody, which can be told before anything of a request is read.
    """
    depth, mark = _seen.everybody, conf().queue_high_water
    if time.monotonic() >= depth.until:
        depth.take(plain_rows("backlog", (mark + 1,))[0][0])
    _refuse(depth, mark * _share(priority), "The installation has")


def check_tenant(tx: Tx, priority: int, more: int = 1) -> None:
    """Raise QueueFull when the tenant, or everybody together, has too much waiting; ``more`` steps would come."""
    check_installation(priority)
    depth, mark = _seen.tenants.get(tx.tenant_id), conf().tenant_high_water
    if depth is None:
        if len(_seen.tenants) >= _KNOWN_TENANTS:
            _seen.tenants.clear()
        depth = _seen.tenants[tx.tenant_id] = _Depth()
    if time.monotonic() >= depth.until:
        row = tx.one("own_backlog", {"most": mark + 1})
        assert row is not None
        depth.take(row[0])
    _refuse(depth, mark * _share(priority), "The tenant has")
    depth.steps += more


def _share(priority: int) -> float:
    return next(share for least, share in _SHARES if priority >= least)


def _refuse(depth: _Depth, mark: float, who: str) -> None:
    if depth.steps >= mark:
        raise QueueFull(
            f"{who} too many steps waiting for a worker: work of this priority is not taken now.",
            retry_after=round(depth.retry_after(mark), 1),
            remediation="Send it again after `retry_after` seconds; what was accepted before is safe.",
        )
