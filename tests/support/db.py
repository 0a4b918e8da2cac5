"""The tests' PostgreSQL: one server per test session, one migrated template, clones of it.

``QUARTERDECK_TEST_PG`` chooses the server: ``embedded`` (the one the product brings, default) or ``system`` (the
binaries of the machine, PostgreSQL 15 or newer). Append-only tables refuse TRUNCATE, so nothing is flushed: tests
work in a tenant of their own inside their worker's clone, or in a fresh clone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import psycopg

from runtime.store import roles
from runtime.store.embedded import OWNER, Server, binaries

TEMPLATE = "qd_template"
HOME = "QUARTERDECK_TEST_HOME"


def prepare_environment() -> None:
    """Name the session's folder and database before Django's settings are read; pytest-xdist's workers inherit it."""
    if HOME not in os.environ:
        home = tempfile.mkdtemp(prefix="qd-test-", dir="/tmp")
        os.chmod(home, 0o711)
        os.environ[HOME] = home
        os.environ["QUARTERDECK_TEST_MAIN"] = str(os.getpid())
    os.environ["QUARTERDECK_DATA"] = os.environ[HOME]
    os.environ["DATABASE_URL"] = server().url(worker_database())
    os.environ.setdefault("QUARTERDECK_DB_ROLE", "web")
    os.environ.setdefault("QUARTERDECK_MCP_COMMANDS", "*")
    os.environ.setdefault("QUARTERDECK_TOOL_PRIVATE_HOSTS", "127.0.0.1,::1,localhost")


def worker_database() -> str:
    """Return the name of this pytest process's clone."""
    return f"qd_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"


def system_binaries() -> Path:
    """Return the newest PostgreSQL of the machine. Raises RuntimeError when there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parent.parent.name))
    on_path = shutil.which("initdb")
    if not found and not on_path:
        raise RuntimeError("QUARTERDECK_TEST_PG=system needs PostgreSQL on the machine (package postgresql).")
    return (found[-1] if found else Path(os.path.realpath(on_path or ""))).parent


def server() -> Server:
    """Return the session's server, running or not."""
    kind = os.environ.get("QUARTERDECK_TEST_PG", "embedded")
    if kind not in ("embedded", "system"):
        raise RuntimeError(f"QUARTERDECK_TEST_PG is {kind!r}; it is embedded or system.")
    return Server(Path(os.environ[HOME]), system_binaries() if kind == "system" else None)


def check_server() -> str:
    """Return which server runs: version and folder of its program. Raises RuntimeError when it is not the asked one."""
    import psutil

    kind = os.environ.get("QUARTERDECK_TEST_PG", "embedded")
    wanted = (system_binaries() if kind == "system" else binaries()).resolve()
    program = Path(psutil.Process(server().pid()).exe()).resolve().parent
    if program != wanted:
        raise RuntimeError(f"QUARTERDECK_TEST_PG is {kind}, so {wanted} was to run; {program} does.")
    with admin() as connection:
        version = connection.info.parameter_status("server_version")
    return f"PostgreSQL {version} ({kind}: {program})"


def admin() -> psycopg.Connection[Any]:
    """Return a superuser's autocommit connection; for making and dropping databases, never for a test's own work."""
    return psycopg.connect(server().admin_url(), autocommit=True)


def set_up() -> None:
    """Start the server, migrate the template once for all workers, and make this worker's clone."""
    with _lock():
        server().start()
        check_server()
        with admin() as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone()
            if not known:
                _spare_the_disk(connection)
                roles.create_database(connection, TEMPLATE + "_draft", OWNER)
                _migrate(TEMPLATE + "_draft")
                connection.execute(f"ALTER DATABASE {TEMPLATE}_draft RENAME TO {TEMPLATE}")
        clone(worker_database())


def tear_down() -> None:
    """Stop the server and delete its folder; only the process that named the folder does so."""
    home = os.environ.get(HOME, "")
    if os.environ.get("QUARTERDECK_TEST_MAIN") == str(os.getpid()) and home:
        if (Path(home) / "postgres.lock").exists():
            server().stop()
            shutil.rmtree(server().layout.place, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


def clone(name: str) -> None:
    """Make database ``name`` as a copy of the template, in place of an older one."""
    with admin() as connection:
        roles.drop_database(connection, name)
        roles.create_database(connection, name, OWNER, TEMPLATE)


def drop(name: str) -> None:
    """Drop database ``name``, ending its sessions."""
    with admin() as connection:
        roles.drop_database(connection, name)


@contextmanager
def _lock() -> Iterator[None]:
    with open(Path(os.environ[HOME]) / "template.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _spare_the_disk(connection: psycopg.Connection[Any]) -> None:
    """Leave out what only a power cut needs: a commit still outlives the kill of any process, the server's own too.

    What is to stand on a disk that is waited for has a server of its own (``tests/support/own_server.py``).
    """
    for setting in ("fsync", "full_page_writes"):
        connection.execute(f"ALTER SYSTEM SET {setting} = off")
    connection.execute("SELECT pg_reload_conf()")


def _migrate(name: str) -> None:
    from django.core.management import call_command

    with switched("owner", NAME=name):
        call_command("migrate", database="owner", verbosity=0, interactive=False)


@contextmanager
def switched(alias: str, **changes: Any) -> Iterator[None]:
    """Change the settings of ``alias`` for all threads of this process; connections are opened anew at both ends.

    Keys are Django's (``NAME``, ``HOST``), or ``role``: owner, web, worker.
    """
    from django.db import connections

    from dashboard.config.env import ROLES

    settings = connections.databases[alias]
    before = {key: settings[key] for key in ("NAME", "HOST", "PORT", "OPTIONS")}
    if (role := changes.pop("role", None)) is not None:
        changes["OPTIONS"] = {**settings["OPTIONS"], "options": f"-c role={ROLES[role]}" if ROLES[role] else ""}
    connections[alias].close()
    settings.update(changes)
    try:
        yield
    finally:
        connections[alias].close()
        settings.update(before)


@dataclass(frozen=True, slots=True)
class Database:
    """A database of a test: its ``name``, and the owner's ``url`` for the processes a test starts."""

    name: str

    @property
    def url(self) -> str:
        return server().url(self.name)

    def environ(self, role: str = "web", **more: str) -> dict[str, str]:
        """Return the environment of a real process (`manage.py …`, daphne) that works on this database."""
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "dashboard.config.settings", "DATABASE_URL": self.url}
        environment.update(QUARTERDECK_DB_ROLE=role, **more)
        return environment

    def connect(self, role: str | None = None) -> psycopg.Connection[Any]:
        """Return a plain autocommit connection as owner, ``qd_web``, ``qd_worker``; no tenant is set."""
        options = f"-c role={role}" if role else ""
        return psycopg.connect(self.url, autocommit=True, options=options)


def name_of(url: str) -> str:
    """Return the database named in ``url``."""
    return unquote(urlsplit(url).path.lstrip("/"))


def with_name(url: str, name: str) -> str:
    """Return ``url`` with another database."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{name}"))
