"""The embedded PostgreSQL: start, address, stop (engine.md 15). A wheel carries the binaries; the lifecycle is ours.

It runs with fsync, passwords and a private socket, survives its starters, and is found again after any of them, or
all of them, was killed. Several starters at once are one start.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runtime.kernel.errors import ConfigurationError
from runtime.store import roles
from runtime.store.embedded_files import (
    Layout,
    account,
    binaries,
    layout,
    make_dir,
    make_system_dir,
    open_owned,
    secret,
)

__all__ = ["Server", "ensure_running", "secret", "stop", "url"]

OWNER = DATABASE = "quarterdeck"
SUPERUSER = "bootstrap"
# Recovery after a crash replays at most max_wal_size of log; the old server's children go within seconds.
START_SECONDS, STOP_SECONDS = 300.0, 60.0

SERVER_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "8MB",
    "maintenance_work_mem": "128MB",
    "wal_buffers": "16MB",
    "min_wal_size": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    # Short statements: compiling them or sharing them between processes costs more than it gives.
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    # A statement may touch many partitions of events and attempts.
    "max_locks_per_transaction": "256",
    # Steps and sessions are updated all the time: clean up soon and in small bites.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.02",
    "autovacuum_vacuum_cost_limit": "1000",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %u@%d ",
    "logging_collector": "on",
    "log_directory": "log",
    "log_filename": "postgresql-%a.log",
    "log_truncate_on_rotation": "on",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
}


class Server:
    """One embedded server. ``home``: the data folder the user named; ``bin_dir``: other binaries than the carried."""

    def __init__(self, home: Path | str, bin_dir: Path | None = None) -> None:
        self.layout: Layout = layout(Path(home))
        self._bin_dir = bin_dir

    @property
    def data(self) -> Path:
        return self.layout.data

    def url(self, database: str = DATABASE) -> str:
        """Return the owner's address of ``database``; it is valid from the first start on."""
        return self._url(OWNER, secret(self.layout.home, "database_password", _token), database)

    def admin_url(self, database: str = "postgres") -> str:
        """Return the superuser's address: bootstrap and test set-up only."""
        return self._url(SUPERUSER, self._superuser_password(), database)

    def start(self) -> str:
        """Start the server when it does not run, create what is missing in it, and return the owner's address."""
        with self._lock():
            self._prepare()
            deadline = time.monotonic() + START_SECONDS
            while not self._answers():
                if self.pid() is None:
                    self._launch()
                if time.monotonic() > deadline:
                    raise ConfigurationError(f"PostgreSQL did not start in {START_SECONDS:.0f} s.\n{self._log_tail()}")
                time.sleep(0.03)
            self._bootstrap()
        return self.url()

    def stop(self) -> None:
        """Stop in fast mode: sessions are ended, nothing that was committed is lost. No server is no error."""
        with self._lock():
            for number, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 10.0)):
                pid = self.pid()
                if pid is None:
                    return
                os.kill(pid, number)
                deadline = time.monotonic() + seconds
                while self.pid() == pid and time.monotonic() < deadline:
                    time.sleep(0.02)

    def pid(self) -> int | None:
        """Return the id of the running postmaster, or None. A zombie or a reused id does not count as one."""
        import psutil

        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE or not os.path.samefile(process.cwd(), self.data):
                return None
        except (OSError, ValueError, IndexError, psutil.Error):
            return None
        return pid

    # -- the steps of a start

    def _prepare(self) -> None:
        where = self.layout
        self._account = account(where.data)
        make_system_dir(where.place.parent)
        make_dir(where.place, self._account)
        (where.place / "home").write_text(f"{where.home}\n")
        make_dir(where.socket_dir, self._account)
        if self._bin_dir is None:
            self._bin_dir = binaries()
        if (where.data / "PG_VERSION").exists():
            self._refuse_other_major()
        else:
            self._initdb()
        self._write_settings()

    def _refuse_other_major(self) -> None:
        found, ours = (self.data / "PG_VERSION").read_text().strip(), self.major()
        if found != ours:
            raise ConfigurationError(
                f"The database in {self.data} was made by PostgreSQL {found}; this installation carries {ours}.",
                remediation=(
                    f"Dump it with the installation that made it (pg_dump of PostgreSQL {found}), move the folder "
                    "away, start here once and restore the dump into the new database; or go back to that installation."
                ),
            )

    def major(self) -> str:
        """Return the major version of the binaries, such as ``18``."""
        return self._run("postgres", "--version").stdout.split()[2].split(".")[0]

    def _initdb(self) -> None:
        """Make the cluster beside its final name, so that a start that is cut off leaves no half of one."""
        draft = self.layout.place / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        self._superuser_password()
        locale = ["--locale-provider=builtin", "--locale=C.UTF-8"] if int(self.major()) >= 17 else ["--locale=C.UTF-8"]
        self._run(
            *("initdb", "-D", str(draft), "-U", SUPERUSER, "--pwfile", str(self.layout.place / "superuser_password")),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--no-instructions", *locale),
        )
        with open(draft / "postgresql.conf", "a") as file:
            file.write("\ninclude = 'quarterdeck.conf'\ninclude_if_exists = 'custom.conf'\n")
        draft.rename(self.data)

    def _write_settings(self) -> None:
        """Write our settings anew at each start: the home may have moved. The user's own go into custom.conf."""
        directory = str(self.layout.socket_dir).replace('"', '""')
        settings = {**SERVER_SETTINGS, "unix_socket_directories": f'"{directory}"'}
        lines = ["# Written at each start; put your own settings into custom.conf beside this file."]
        lines += [f"{name} = {roles.literal(value)}" for name, value in settings.items()]
        path = self.data / "quarterdeck.conf"
        path.write_text("\n".join(lines) + "\n")
        self._give(path)

    def _launch(self) -> None:
        """Start the postmaster in a session of its own and wait until it is there or has failed."""
        # We have made sure that no postmaster of this folder lives. What these files say then is an id that now
        # belongs to a zombie or a stranger, which PostgreSQL takes for a living server. It still refuses by itself
        # while children of the dead one hold the shared memory.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.layout.socket_dir / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
        log = self.layout.place / "start.log"
        log.write_bytes(b"")
        self._give(log)
        # The shell lets go of the server, so that it is nobody's child and leaves no zombie with us.
        command = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 &'
        arguments = ["/bin/sh", "-c", command, "sh", str(log), str(self._binary("postgres")), "-D", str(self.data)]
        subprocess.run(arguments, check=True, start_new_session=True, **self._as_account())
        deadline = time.monotonic() + 5.0
        while self.pid() is None and time.monotonic() < deadline:
            text = log.read_text(errors="replace")
            if "FATAL" in text:
                if "shared memory block" not in text and "lock file" not in text:
                    raise ConfigurationError(f"PostgreSQL does not start.\n{self._log_tail()}")
                time.sleep(0.3)
                return
            time.sleep(0.01)

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.admin_url(), connect_timeout=5):
                return True
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise ConfigurationError(
                    f"The server in {self.data} does not know the password in {self.layout.place}.",
                    remediation="Restore superuser_password from the backup the data came from.",
                ) from None
            return False

    def _bootstrap(self) -> None:
        """Create the owner, the roles and the database; a marker spares it the next starts."""
        import psycopg

        password = secret(self.layout.home, "database_password", _token)
        statements = [*roles.owner_statements(OWNER, password), *roles.role_statements(OWNER, DATABASE)]
        marker = self.data / "quarterdeck.ready"
        if marker.exists() and marker.read_text() == _digest(statements):
            return
        with psycopg.connect(self.admin_url(), autocommit=True) as connection:
            for statement in statements[:2]:
                connection.execute(statement.encode())
            roles.create_database(connection, DATABASE, OWNER)
            for statement in statements[2:]:
                connection.execute(statement.encode())
        marker.write_text(_digest(statements))

    # -- small parts

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with open_owned(self.layout.home / "postgres.lock") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _superuser_password(self) -> str:
        return secret(self.layout.place, "superuser_password", _token, account(self.data))

    def _url(self, user: str, password: str, database: str) -> str:
        where = quote(str(self.layout.socket_dir), safe="")
        return f"postgresql://{user}:{quote(password, safe='')}@/{quote(database, safe='')}?host={where}&port=5432"

    def _binary(self, name: str) -> Path:
        if self._bin_dir is None:
            self._bin_dir = binaries()
        return self._bin_dir / name

    def _as_account(self) -> dict[str, Any]:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
        drop: dict[str, Any] = {"env": environment, "cwd": "/", "stdin": subprocess.DEVNULL}
        if owner := account(self.data):
            drop.update(user=owner.uid, group=owner.gid, extra_groups=[])
        return drop

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self._binary(name)), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_account())
        if done.returncode:
            raise ConfigurationError(f"{name} failed.\n{done.stderr.strip()}")
        return done

    def _give(self, path: Path) -> None:
        path.chmod(0o600)
        if self._account:
            os.chown(path, self._account.uid, self._account.gid)

    def _log_tail(self) -> str:
        logs = [self.layout.place / "start.log", *sorted((self.data / "log").glob("*"), key=os.path.getmtime)[-1:]]
        return "\n".join(line for log in logs for line in log.read_text(errors="replace").splitlines()[-8:])


def ensure_running(home: Path | str) -> str:
    """Start the embedded server of the data folder ``home`` when it does not run; return the owner's address."""
    return Server(home).start()


def stop(home: Path | str) -> None:
    """Stop the embedded server of ``home``."""
    Server(home).stop()


def url(home: Path | str) -> str:
    """Return the owner's address, whether the server runs or not. Makes the folder and the password when missing."""
    return Server(home).url()


def _token() -> str:
    return secrets.token_urlsafe(24)


def _digest(statements: list[str]) -> str:
    import hashlib

    return hashlib.sha256("\n".join(statements).encode()).hexdigest()
