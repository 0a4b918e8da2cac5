"""A wire that can be cut: a relay between this process and PostgreSQL that loses an answer, or a request, on demand.

It looks for the word COMMIT in what the client sends. ``answer`` cuts after the server has committed and before the
client is told; ``request`` cuts before the server sees it; ``late`` cuts now and lets the server see it when
:meth:`Wire.deliver` is called, as on a machine that is slow to commit. All look the same to the client.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support import db as support


class Wire:
    """Relays connections to ``url``'s server; ``commits`` counts the COMMITs it has let pass or cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        host = parse_qs(parts.query).get("host", [parts.hostname or ""])[0]
        self._server = (host, parts.port or int(parse_qs(parts.query).get("port", ["5432"])[0]))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.commits = 0
        self.cuts = 0
        self._cut_at: tuple[int, str] | None = None
        self._delivered = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self, number: int, what: str) -> None:
        """Cut at the ``number``-th COMMIT from now on (1 is the next one)."""
        with self._lock:
            self._cut_at, self.commits = (number, what), 0

    def deliver(self) -> None:
        """Let the server see the COMMIT that was cut ``late``."""
        self._delivered.set()

    def close(self) -> None:
        self._delivered.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client, self._connect()), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = self._server
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(str(Path(host) / f".s.PGSQL.{port}"))
        return server

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        losing = ""
        with client, server, contextlib.suppress(OSError):
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if client in ready:
                    if not (data := client.recv(65536)):
                        return
                    losing = losing or self._look(data)
                    if losing == "request":
                        return
                    if losing == "late":
                        client.close()
                        self._delivered.wait()
                        server.sendall(data)
                        server.recv(65536)
                        return
                    server.sendall(data)
                if server in ready:
                    if not (data := server.recv(65536)) or losing:
                        return  # the server has answered, so it has committed
                    client.sendall(data)

    def _look(self, data: bytes) -> str:
        found = data.upper().count(b"COMMIT")
        if not found:
            return ""
        with self._lock:
            before, self.commits = self.commits, self.commits + found
            if self._cut_at is None or not before < self._cut_at[0] <= self.commits:
                return ""
            what, self._cut_at = self._cut_at[1], None
            self.cuts += 1
            return what


@contextmanager
def through_a_wire(database: support.Database) -> Iterator[Wire]:
    """Lead the ``default`` alias of this process through a wire that can be cut."""
    from django.db import connections

    wire = Wire(database.url)
    settings: dict[str, Any] = connections.databases["default"]
    before = {"HOST": settings["HOST"], "PORT": settings["PORT"]}
    connections["default"].close()
    settings.update(HOST="127.0.0.1", PORT=str(wire.port))
    try:
        yield wire
    finally:
        connections["default"].close()
        settings.update(before)
        wire.close()
