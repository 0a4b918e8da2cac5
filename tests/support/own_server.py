"""A PostgreSQL of a test's own, to be stopped, killed and started again; of the kind QUARTERDECK_TEST_PG names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from runtime.store.embedded import Server
from tests.support import db as support
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
_NAMES = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}


@dataclass(frozen=True, slots=True)
class OwnDatabase(support.Database):
    """The database of a server of its own."""

    address: str = ""

    @property
    def url(self) -> str:
        return self.address

    def connect(self, role: str | None = None) -> psycopg.Connection[Any]:
        return psycopg.connect(self.address, autocommit=True, options=f"-c role={role}" if role else "")


@contextmanager
def aliases_on(url: str) -> Iterator[OwnDatabase]:
    """Lead both Django aliases to the database at ``url``."""
    from django.db import connections

    parts = conninfo_to_dict(url)
    before: dict[str, dict[str, Any]] = {}
    for alias in ("default", "owner"):
        settings = connections.databases[alias]
        before[alias] = {name: settings[name] for name in _NAMES}
        connections[alias].close()
        settings.update({name: str(parts.get(key, "")) for name, key in _NAMES.items()})
    try:
        yield OwnDatabase(str(parts["dbname"]), url)
    finally:
        for alias, settings in before.items():
            connections[alias].close()
            connections.databases[alias].update(settings)


@contextmanager
def own_server(folder: Path) -> Iterator[tuple[Server, OwnDatabase]]:
    """Start a migrated server in ``folder`` and lead both Django aliases to it."""
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    system = os.environ.get("QUARTERDECK_TEST_PG") == "system"
    server = Server(folder, support.system_binaries() if system else None)
    try:
        with aliases_on(server.start()) as database:
            subprocess.run(
                [sys.executable, str(ROOT / "manage.py"), "migrate", "-v", "0"],
                env=database.environ("owner", QUARTERDECK_DATA=str(folder)),
                check=True,
                timeout=patient(120),
            )
            yield server, database
    finally:
        server.stop()
        shutil.rmtree(server.layout.place, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
