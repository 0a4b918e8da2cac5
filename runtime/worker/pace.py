"""How many steps are claimed at once: many short ones, a long one alone (engine.md 2).

It is about steps that run in the drain's own thread, one after the other; what waits in slots is counted by slots.
"""

from __future__ import annotations

import time

from runtime.kernel.conf import conf

INLINE_SECONDS = 0.05  # what runs in this thread between two transactions takes about so long at most
SHARE_OF_LEASE = 5  # what was claimed and not begun after that share of it goes to whoever has time


class Pace:
    """Seconds a step took that ran in the drain's thread, by the last batch; 0 while most wait in slots."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun_at, self._claimed, self._before = 0.0, 0, 0

    def begin(self, claimed: int, reports: int) -> None:
        """A batch of so many steps begins, with so many reports on hand."""
        self._begun_at, self._claimed, self._before = time.monotonic(), claimed, reports

    def is_late(self) -> bool:
        """Whether what is not begun by now is given back, long before the lease ends."""
        return time.monotonic() - self._begun_at > conf().lease_seconds / SHARE_OF_LEASE

    def end(self, reports: int) -> None:
        """The batch was gone through: judge by it, if most of it ran here."""
        count = reports - self._before
        self.seconds = (time.monotonic() - self._begun_at) / count if 2 * count > self._claimed else 0.0

    def quick(self) -> int:
        """How many steps would run here in the time there is, judged by the last ones; 0 when that is not known."""
        return min(conf().claim_batch, int(INLINE_SECONDS / self.seconds)) if self.seconds else 0

    def inline(self) -> int:
        """How many steps that run here may be taken at once: what comes behind a long one would wait for its end."""
        return max(1, self.quick()) if self.seconds else conf().claim_batch
