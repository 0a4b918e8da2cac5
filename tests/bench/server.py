"""The PostgreSQL of `make bench`: one server for ours and the peers' databases, default durability, over TCP."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import psycopg

from runtime.store import roles
from runtime.store.embedded import OWNER, Server
from tests.support.db import system_binaries, with_name


class BenchServer(Server):
    """The machine's PostgreSQL where it is 15 or newer, else the one the product carries; the settings are ours."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, _binaries())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])

    def _url(self, user: str, password: str, database: str) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def _write_settings(self) -> None:
        super()._write_settings()
        path = self.data / "custom.conf"
        path.write_text(f"listen_addresses = '127.0.0.1'\nport = {self.port}\n")
        self._give(path)

    def superuser(self) -> dict[str, str]:
        """Return the environment by which the peers' scripts find the server."""
        parts = urlsplit(self.admin_url())
        return {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": unquote(parts.username or ""),
            "PGPASSWORD": unquote(parts.password or ""),
            "PATH": f"{self._bin_dir}{os.pathsep}{os.environ['PATH']}",
        }

    @contextmanager
    def database(self, name: str) -> Iterator[dict[str, str]]:
        """Make an empty database for ours; yields the environment of `manage.py`. It is dropped at the end."""
        with self._admin() as connection:
            roles.drop_database(connection, name)
            roles.create_database(connection, name, OWNER)
        try:
            yield {"DATABASE_URL": with_name(self.url(), name), "QUARTERDECK_DATA": str(self.layout.home)}
        finally:
            with self._admin() as connection:
                roles.drop_database(connection, name)

    def version(self) -> str:
        """Return the server's version, such as 15.6."""
        with self._admin() as connection:
            return str(connection.execute("SHOW server_version").fetchone()[0]).split()[0]  # type: ignore[index]

    def _admin(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.admin_url(), autocommit=True)


def _binaries() -> Path | None:
    try:
        found = system_binaries()
    except RuntimeError:
        return None
    major = found.parent.name
    return found if not major.isdigit() or int(major) >= 15 else None


@contextmanager
def running() -> Iterator[BenchServer]:
    """Run a server in a folder of its own, deleted at the end."""
    home = Path(tempfile.mkdtemp(prefix="qd-bench-", dir="/tmp"))
    home.chmod(0o711)
    server = BenchServer(home)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.layout.place, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
