"""The clock of the tests: it moves ``qd_now()``, which decides leases, timers and deadlines for every process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg


class Clock:
    """Moves the time of one database. Only the owner may write ``qd_clock``."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def now(self) -> datetime:
        """Return the database's time as everybody sees it."""
        row = self._connection.execute("SELECT qd_now()").fetchone()
        assert row is not None
        return row[0].astimezone(UTC)

    def advance(self, delta: timedelta | float) -> datetime:
        """Move on by ``delta`` (a timedelta, or seconds) and return the new time."""
        step = delta if isinstance(delta, timedelta) else timedelta(seconds=delta)
        self._connection.execute('UPDATE qd_clock SET "offset" = "offset" + %s', [step])
        return self.now()

    def set(self, when: datetime) -> datetime:
        """Make it ``when`` now; time goes on from there."""
        self._connection.execute('UPDATE qd_clock SET "offset" = %s - clock_timestamp()', [when])
        return self.now()

    def reset(self) -> None:
        """Go back to the real time."""
        self._connection.execute("UPDATE qd_clock SET \"offset\" = interval '0'")
