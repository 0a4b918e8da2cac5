"""Worker sessions: one row per worker process, holding the lease for all steps it runs (engine.md 4)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from runtime.actions.base import WORK_CHANNEL
from runtime.actions.manifests import code_version
from runtime.kernel.conf import conf
from runtime.kernel.ids import uuid7
from runtime.store.arrays import arrays
from runtime.store.tx import plain_tx
from runtime.worker.lease import Lease, Look, lease_path, look_at, write_deadline
from runtime.worker.places import read_places, room


def host_name() -> str:
    """Return this host's name, as sessions carry it.

    By default with a mark of the running kernel and its process ids: a heartbeat judges processes by their ids, so it
    must not take another machine or container of the same name for its own.
    """
    return os.environ.get("QUARTERDECK_HOST") or f"{socket.gethostname()}{_mark()}"


@cache
def _mark() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        return "~" + hashlib.sha256((boot + os.readlink("/proc/self/ns/pid")).encode()).hexdigest()[:6]
    except OSError:
        return ""


def process_start(pid: int) -> str | None:
    """Return when ``pid`` started (clock ticks since boot), or None when it is gone or a zombie."""
    fields = _stat(pid)
    return None if not fields or fields[0] in "ZX" else fields[19]


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process after its name, state first; [] when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _stopped(pid: int) -> bool:
    """Return whether somebody has stopped the process (SIGSTOP, a debugger)."""
    return (_stat(pid) or "?")[0] in "Tt"


def _use(stat: list[str]) -> tuple[float | None, int | None]:
    """Return what a process has used: CPU seconds, its own threads' together, and bytes of memory it holds now."""
    if len(stat) < 22:
        return None, None
    seconds = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return seconds, int(stat[21]) * os.sysconf("SC_PAGE_SIZE")


def _works(session_id: uuid.UUID, pid: int) -> bool:
    """Return whether a living process makes progress: it is not stopped, and it goes round its loop while busy."""
    return not _stopped(pid) and look_at(session_id).stalled < conf().stall_seconds


def _alive(pid: int, start: str) -> bool:
    if Path("/proc/self/stat").exists():
        return process_start(pid) == start
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# Sessions of this process whose insert nobody confirmed: the row may be there, and no worker stands behind it.
_unconfirmed: list[uuid.UUID] = []


class Session:
    """This process's session. Opening one takes a fresh right to execute; an old heartbeat is never restored (A3.4)."""

    def __init__(self) -> None:
        self.id = uuid7()
        self.pid = os.getpid()
        self.lease = Lease(self.id, conf().lease_seconds, room())
        row = (
            self.id, host_name(), self.pid, process_start(self.pid) or "", orjson.dumps(list(conf().pools)).decode(),
            conf().slots, code_version(), conf().lease_seconds,
        )  # fmt: skip
        try:
            with plain_tx() as tx:
                tx.send("insert_session", row)
                tx.send("end_sessions", ("never_used", _unconfirmed))
        except BaseException:
            self.lease.give_up()
            _unconfirmed.append(self.id)
            raise
        for session_id in _unconfirmed:
            lease_path(session_id).unlink(missing_ok=True)
        _unconfirmed.clear()

    def end(self, reason: str = "stopped") -> None:
        """Give the lease back; steps still running become somebody else's. Sends nothing more, whatever comes next.

        When the database does not hear of it, the heartbeat ends the session in our place.
        """
        self.lease.give_up()
        with plain_tx() as tx:
            tx.send("end_sessions", (reason, [self.id]))
        self.lease.forget()


def mark_of(session_id: uuid.UUID) -> int:
    """Return the key of the advisory lock that every transaction shares which may start steps for the session."""
    return session_id.int & 0x3FFFFFFFFFFFFFFF


def renew_host(host: str) -> tuple[int, list[uuid.UUID]]:
    """Renew the sessions of working processes on this host and end those that nobody stands behind.

    Returns (how many were renewed, the ids that ended). The deadline a worker is told is counted from before the
    renewal was sent, so that it never outlives the row's own. A process that is stopped, or busy without progress,
    is left to its lease. Ended are sessions of dead processes, those that their workers gave up, and those whose worker
    says that it holds nothing while a step runs under them: it has forgotten the step, and nobody else would go on.
    With a renewal goes what the worker shows: steps in hand (``busy``), steps written (``progress_seq``), what its
    process uses, and each call's attempt, progress, checkpoint and estimate (``in_hand``).
    """
    seconds = conf().lease_seconds
    with plain_tx() as tx:
        rows, at = tx.rows("live_sessions_of_host", (host,)), tx.now()
        dead = [row[0] for row in rows if not _alive(row[1], row[2])]
        looks = {row[0]: look_at(row[0]) for row in rows if row[0] not in dead}
        given_up = [session_id for session_id, look in looks.items() if look.given_up]
        # Asked after the look: what was started before ``at`` and still runs then is not on any worker's list.
        idle = [session_id for session_id, look in looks.items() if look.idle]
        forgetful = [row[0] for row in tx.rows("forgetful_sessions", (idle, at))] if idle else []
        lost = {"process_died": dead, "given_up": given_up, "steps_forgotten": forgetful}
        ended = [row[0] for why, ids in lost.items() if ids for row in tx.rows("end_sessions", (why, ids))]
        if ended:
            tx.notify(WORK_CHANNEL)  # who lives on without a session takes a new one when it is rung
        alive = [row[0] for row in rows if row[0] in looks and not row[3] and _works(row[0], row[1])]
        alive = [session_id for session_id in alive if session_id not in given_up and session_id not in forgetful]
        stalled = [session_id for session_id in looks if session_id not in alive and session_id not in ended]
        if stalled:
            tx.send("mark_stalled", (stalled,))
        before = time.monotonic()
        processes = {row[0]: row[1] for row in rows}
        shown = arrays("uilflt", [_shown(one, looks[one], processes[one]) for one in alive])
        renewed = [row[0] for row in tx.rows("renew_sessions", (seconds, *shown))] if alive else []
    for session_id in renewed:
        write_deadline(session_id, before + seconds)
    for session_id in ended:
        with contextlib.suppress(OSError):
            lease_path(session_id).unlink(missing_ok=True)
    return len(renewed), ended


def _shown(session_id: uuid.UUID, look: Look, pid: int) -> tuple[Any, ...]:
    """Return a worker's share of a renewal; a process that its call runs in has its own figures, others only all's."""
    calls, now = [], time.monotonic()
    for seen in read_places(session_id) if look.busy else ():
        child = _stat(seen.pid) if seen.pid else []
        cpu, rss = _use(child) if child[1:2] == [str(pid)] else (None, None)  # its number may be somebody else's by now
        calls.append({**seen.shown(now), "cpu_s": cpu, "rss_bytes": rss})
    return (session_id, look.busy, look.progress, *_use(_stat(pid)), orjson.dumps(calls).decode() if calls else None)


def kill_stalled(known: dict[uuid.UUID, tuple[int, str]]) -> list[int]:
    """Kill worker processes that hang and whose lease is over, so that their cluster replaces them; return which.

    Their steps are somebody else's by then. Without this a tool that hangs in the worker's own thread takes one process
    after the other, until nobody is left to work. One that somebody stopped is left alone: it may go on.
    """
    killed = []
    for session_id, (pid, start) in known.items():
        if look_at(session_id).stalled < conf().stall_seconds or _stopped(pid) or not _alive(pid, start):
            continue
        with plain_tx() as tx:
            row = tx.one("session_is_live", (mark_of(session_id), session_id))
        if row is None or not row[0]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            killed.append(pid)
    return killed


def dead_on_host(host: str, known: dict[uuid.UUID, tuple[int, str]]) -> list[uuid.UUID]:
    """Return the known sessions whose process is gone; asks the kernel only, so it may be called often."""
    return [session_id for session_id, (pid, start) in known.items() if not _alive(pid, start)]
