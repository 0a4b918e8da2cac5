"""The lease as a worker process sees it: a deadline on the host's monotonic clock, renewed by another process.

The heartbeat process renews the session's row and writes the deadline it won into a small file that the worker has
mapped; a worker whose interpreter is held up for seconds does not lose its lease by that (engine.md 4). Before every
external send the worker compares the deadline with the clock.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

# When the lease ends; when the worker last went round its loop, 0 while it has nothing to do; how many steps it has in
# hand, how many it has written.
_FORM = struct.Struct("<ddqq")
_ONE, _LOOP = struct.Struct("<d"), struct.Struct("<dqq")
_BARE = 2 * _ONE.size  # as earlier versions wrote it
HEAD = _FORM.size  # behind it lies what :mod:`runtime.worker.places` shows of the calls in hand
_GIVEN_UP = -1.0  # in place of the loop's time: the worker will do nothing more under this session


def run_dir() -> Path:
    """Return the folder for files of running processes."""
    folder = Path(settings.QUARTERDECK_DATA) / "run"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def lease_path(session_id: uuid.UUID) -> Path:
    """Return where the deadline of a session on this host is kept."""
    return run_dir() / f"lease-{session_id}"


class Lease:
    """A worker's own view of its lease. ``held()`` costs well under a microsecond."""

    def __init__(self, session_id: uuid.UUID, seconds: float, room: int = 0) -> None:
        self.path = lease_path(session_id)
        self.room = room  # bytes behind the head
        self.path.write_bytes(_FORM.pack(time.monotonic() + seconds, 0.0, 0, 0) + bytes(room))
        with self.path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), HEAD + room)

    def held(self) -> bool:
        """Return whether the lease is certain right now; a closed one never is."""
        try:
            deadline: float = _ONE.unpack_from(self._map)[0]
        except ValueError:
            return False
        return time.monotonic() < deadline

    def beat(self, busy: int = 0, written: int = 0) -> None:
        """Show that the worker makes progress; one that is busy and does not loses its lease (engine.md 4).

        ``busy`` is how many steps it has in hand, ``written`` how many it has completed under this session.
        """
        _LOOP.pack_into(self._map, _ONE.size, time.monotonic(), busy, written)

    def rest(self, written: int = 0) -> None:
        """Show that the worker has nothing to do: no progress is expected of it."""
        if not self._map.closed:
            _LOOP.pack_into(self._map, _ONE.size, 0.0, 0, written)

    def show(self, at: int, data: bytes) -> None:
        """Write into the room behind the head; any thread of the worker may, and after the end it is for nobody."""
        try:
            self._map[HEAD + at : HEAD + at + len(data)] = data
        except ValueError:
            return  # closed

    def give_up(self) -> None:
        """Let go of the lease for ever: a call that asks afterwards is told that it is gone.

        The file stays until :meth:`forget`, so that the heartbeat ends a session whose row still stands as live.
        """
        if not self._map.closed:
            _FORM.pack_into(self._map, 0, 0.0, _GIVEN_UP, 0, 0)
            self._map.close()

    def forget(self) -> None:
        """Delete the file: the session's row is ended, or was never there."""
        self.path.unlink(missing_ok=True)


def write_deadline(session_id: uuid.UUID, deadline: float) -> None:
    """Tell the worker that its lease holds until ``deadline`` (monotonic seconds); called by the heartbeat."""
    path = lease_path(session_id)
    try:
        descriptor = os.open(path, os.O_WRONLY)
    except FileNotFoundError:
        return
    try:
        os.pwrite(descriptor, _ONE.pack(deadline), 0)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Look:
    """What a worker's file says of it; nothing is true of one that is not of this folder.

    ``idle``: it has nothing to do and holds no step. ``given_up``: it will do nothing more under this session.
    ``stalled``: for how long (seconds) it has been busy without going round its loop. ``busy``: how many steps it has
    in hand; ``progress``: how many it has written under this session.
    """

    idle: bool = False
    given_up: bool = False
    stalled: float = 0.0
    busy: int = 0
    progress: int = 0


def look_at(session_id: uuid.UUID) -> Look:
    """Read a worker's file."""
    try:
        with lease_path(session_id).open("rb", buffering=0) as file:
            shown = file.read(HEAD)
    except FileNotFoundError:
        return Look()
    if len(shown) < _BARE:
        return Look()
    _deadline, beat, busy, progress = _FORM.unpack(shown.ljust(HEAD, b"\0"))
    if beat == _GIVEN_UP:
        return Look(given_up=True)
    return Look(beat == 0.0, False, time.monotonic() - beat if beat else 0.0, busy, progress)
