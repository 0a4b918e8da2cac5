"""The heartbeat: one small process per host that renews the leases of living workers and ends those of dead ones."""

from __future__ import annotations

import threading
import time
import uuid

import psycopg
import structlog

from runtime.kernel.conf import conf
from runtime.kernel.errors import Unavailable
from runtime.store.tx import plain_tx
from runtime.worker.lease import lease_path
from runtime.worker.maintenance.lost import return_orphans
from runtime.worker.session import dead_on_host, host_name, kill_stalled, renew_host

log = structlog.get_logger(__name__)

_LOOK_SECONDS, _KNOW_SECONDS = 0.25, 1.0


def run(stop: threading.Event) -> None:
    """Renew every third of a lease; look for dead processes four times a second and act on a death at once."""
    host, next_renewal, next_look = host_name(), 0.0, 0.0
    known: dict[uuid.UUID, tuple[int, str]] = {}
    seen: dict[uuid.UUID, tuple[int, str]] = {}  # also those whose session is over: their process may hang
    while not stop.is_set():
        try:
            now = time.monotonic()
            if now >= next_renewal or dead_on_host(host, known):
                _renewed, ended = renew_host(host)
                next_renewal = now + conf().lease_seconds / 3
                known = _known(host)
                if ended:
                    log.warning("worker sessions are over", sessions=[str(s) for s in ended])
                    # In a thread of its own: locked runs must not keep the next renewal waiting.
                    threading.Thread(target=_return_orphans, name="orphans", daemon=True).start()
            elif now >= next_look:
                known, next_look = _known(host), now + _KNOW_SECONDS
                seen |= known
                if killed := kill_stalled(seen):
                    log.error("workers hung and were killed", processes=killed)
                seen = {one: process for one, process in seen.items() if one in known or lease_path(one).exists()}
        except (psycopg.Error, Unavailable) as problem:
            log.warning("heartbeat cannot reach the database", problem=str(problem)[:200])
        except Exception:
            # Whatever is wrong with one run, the leases of all workers are renewed.
            log.exception("heartbeat")
        stop.wait(_LOOK_SECONDS)


def _return_orphans() -> None:
    from django.db import connections

    try:
        return_orphans()
    except Exception:
        log.exception("orphans are left to the scheduler")
    finally:
        connections.close_all()


def _known(host: str) -> dict[uuid.UUID, tuple[int, str]]:
    with plain_tx() as tx:
        return {row[0]: (row[1], row[2]) for row in tx.rows("live_sessions_of_host", (host,))}
