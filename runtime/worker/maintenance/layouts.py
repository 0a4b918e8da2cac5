"""The layout duty: draws workflow versions that have no drawing yet, in a process of its own.

graphlay holds the interpreter's lock while it works, so it may share a process with nothing that answers anybody. The
duty itself only waits for that process, in a thread, so that timers and leases are looked after meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from typing import Any

import psycopg
import structlog
from django.conf import settings
from django.db import connections

from runtime.graph.layout import FORMAT, Shape, drawing_of, shape_of
from runtime.graph.plans import plan_of
from runtime.kernel.errors import QuarterdeckError
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.each import attempt_runs, due

log = structlog.get_logger(__name__)

BATCH = 40
# What one process is given at a time, and how long it may take; what does not end is drawn by our own means.
BATCH_SIZE = 4000
LIMIT_SECONDS = 20.0


def draw_missing(using: str = "default") -> int:
    """Draw what is missing, up to one batch, and store it; return how many drawings were made."""
    batch: list[tuple[uuid.UUID, uuid.UUID, Shape]] = []
    size = 0
    for tenant_id, version_id in _missing(BATCH, using):
        shape = _shape(tenant_id, version_id, using)
        if shape is None:
            continue
        size += len(shape.names) + len(shape.edges)
        if batch and size > BATCH_SIZE:
            break
        batch.append((tenant_id, version_id, shape))
    for (tenant_id, version_id, _), drawing in zip(batch, drawings([shape for *_, shape in batch]), strict=False):
        with tenant_tx(tenant_id, using=using) as tx:
            tx.send("store_layout", (version_id, tenant_id, FORMAT, drawing))
    return len(batch)


def _missing(most: int, using: str = "default") -> list[tuple[uuid.UUID, uuid.UUID]]:
    return [(row[0], row[1]) for row in due("layouts", "versions_to_draw", most, (FORMAT,), using)]


def _shape(tenant_id: uuid.UUID, version_id: uuid.UUID, using: str) -> Shape | None:
    """Return what is to be drawn; None for a version that cannot be read, which is then left alone for a while."""
    found: list[Shape] = []

    def read(_versions: list[tuple[Any, ...]]) -> int:
        with tenant_tx(tenant_id, using=using) as tx:
            found.append(shape_of(plan_of(tx, version_id)))
        return 1

    attempt_runs("layouts", tenant_id, [(version_id,)], read)
    return found[0] if found else None


def drawings(shapes: list[Shape], seconds: float = LIMIT_SECONDS) -> list[bytes]:
    """Return the drawings of the shapes, in order, as JSON bytes.

    The list is shorter when the process ran out of time; the shape it hung on is drawn here, those behind it are not.
    """
    if not shapes:
        return []
    lines = "".join(json.dumps([shape.names, shape.tools, shape.edges]) + "\n" for shape in shapes)
    command = [sys.executable, "-m", "runtime.graph.layout_child"]
    try:
        done = subprocess.run(
            command, input=lines.encode(), capture_output=True, timeout=seconds, cwd=settings.BASE_DIR, check=False
        )
        found, complaint = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        found, complaint = late.stdout or b"", b"out of time"
    made = [line for line in found.split(b"\n")[:-1] if line]
    if len(made) < len(shapes):
        stuck = shapes[len(made)]
        log.warning("graph drawn simply", nodes=len(stuck.names), edges=len(stuck.edges), why=complaint[-300:].decode())
        made.append(json.dumps(drawing_of(stuck, "layered"), separators=(",", ":")).encode())
    return made


class Artist:
    """Runs :func:`draw_missing` in a thread when something is missing; a turn that finds it at work leaves it alone."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def run_once(self) -> None:
        """Look whether something is missing and start to draw, unless that is under way."""
        at_work = self._thread is not None and self._thread.is_alive()
        if not at_work and _missing(1):
            self._thread = threading.Thread(target=self._work, name="layouts", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        try:
            while made := draw_missing():
                log.info("duty", name="layouts", result=made)
        except (psycopg.Error, QuarterdeckError) as problem:
            log.warning("duty failed", name="layouts", problem=str(problem)[:300])
        finally:
            connections.close_all()
