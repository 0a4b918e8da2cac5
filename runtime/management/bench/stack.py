"""The product's own processes, started through its own commands, for as long as a benchmark runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings
from django.db import connections

from runtime.kernel.errors import ConfigurationError, Conflict
from runtime.management.commands.up import migrate_when_needed
from runtime.store import embedded
from runtime.store.tx import plain_tx
from runtime.worker.children import Child, kill_group

READY_SECONDS = 120.0


def wait_until(condition: Callable[[], Any], seconds: float, what: str, every: float = 0.02) -> Any:
    """Return the first true value of ``condition()``. Raises TimeoutError."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)
    return value


@contextmanager
def database() -> Iterator[None]:
    """Have the settings' database running and migrated; an embedded one that was down is stopped again."""
    server = embedded.Server(Path(settings.QUARTERDECK_DATA)) if settings.QUARTERDECK_EMBEDDED else None
    started = server is not None and server.pid() is None
    if server is not None and started:
        server.start()
    try:
        migrate_when_needed()
        yield
    finally:
        connections.close_all()
        if server is not None and started:
            server.stop()


def workers_alive() -> int:
    """Return how many worker sessions hold a lease."""
    with plain_tx() as tx:
        return int(tx.rows("parts_alive")[0][0])


@contextmanager
def workers(count: int, *, running: bool = False) -> Iterator[None]:
    """Run ``manage.py worker`` with ``count`` processes, and heartbeat and scheduler beside it.

    ``running`` says that there are workers already. Raises Conflict when there are none then, or when others
    work on this database, ConfigurationError when ours do not come up.
    """
    if running:
        if not workers_alive():
            raise Conflict(
                "No worker is alive on this database.",
                remediation="Start `manage.py worker` and `manage.py heartbeat`, or leave --workers-running out.",
            )
        yield
        return
    if workers_alive():
        raise Conflict(
            f"{workers_alive()} workers are alive on this database and would take part.",
            remediation="Stop them, or measure them with --workers-running.",
        )
    more = {"QUARTERDECK_WORKERS": str(count), "LOG_LEVEL": "WARNING"}
    children = [_child(name, more) for name in ("scheduler", "heartbeat", "worker")]
    try:
        for child in children:
            child.start()
        try:
            wait_until(lambda: workers_alive() >= count, READY_SECONDS, f"{count} workers")
        except TimeoutError as problem:
            raise ConfigurationError(str(problem)) from None
        yield
    finally:
        for child in reversed(children):
            child.stop(10.0)
        _end_sessions()


@contextmanager
def hosts(count: int) -> Iterator[list[Host]]:
    """Run a scheduler, and two hosts with ``count`` worker processes each; they share nothing but the database.

    Raises Conflict and ConfigurationError as :func:`workers` does.
    """
    if workers_alive():
        raise Conflict(
            f"{workers_alive()} workers are alive on this database and would take part.", remediation="Stop them."
        )
    scheduler = _child("scheduler", {"LOG_LEVEL": "WARNING"})
    both = [Host(f"bench-{name}-{os.getpid()}", count) for name in ("one", "other")]
    try:
        scheduler.start()
        for host in both:
            host.start()
        wait_hosts(both)
        yield both
    finally:
        for host in both:
            host.kill()
        scheduler.stop(10.0)
        for host in both:
            _end_sessions(host.name)


def wait_hosts(both: list[Host]) -> None:
    """Wait until every worker process of the hosts holds a lease, and nobody else does."""
    wanted = sum(host.count for host in both)
    try:
        wait_until(lambda: workers_alive() == wanted, 2 * READY_SECONDS, f"{wanted} workers", 0.05)
    except TimeoutError as problem:
        raise ConfigurationError(str(problem)) from None


class Host:
    """Worker and heartbeat as one machine would run them, under a name of their own."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count = name, count
        self._children: list[Child] = []

    def start(self) -> None:
        """Start its processes."""
        more = {"QUARTERDECK_HOST": self.name, "QUARTERDECK_WORKERS": str(self.count), "LOG_LEVEL": "WARNING"}
        self._children = [_child(name, more) for name in ("heartbeat", "worker")]
        for child in self._children:
            child.start()

    def runs(self, pid: int) -> bool:
        """Say whether a process belongs to it."""
        mine = {child.pid for child in self._children}
        with suppress(psutil.Error):
            one = psutil.Process(pid)
            return bool(mine & {one.pid, *(parent.pid for parent in one.parents())})
        return False

    def kill(self) -> None:
        """Take all of it away at once, as a power cut does: nobody is left to say that its workers died."""
        for child in self._children:
            if child.pid is None:
                continue
            with suppress(psutil.Error):
                for one in psutil.Process(child.pid).children(recursive=True):
                    one.kill()
            kill_group(child.pid)
            child.reap()


def _child(name: str, more: dict[str, str]) -> Child:
    manage = [sys.executable, str(settings.BASE_DIR / "manage.py"), name]
    return Child(name, manage, Path(settings.BASE_DIR), {"QUARTERDECK_DB_ROLE": "worker", **more})


def _end_sessions(host: str | None = None) -> None:
    """Let the sessions of the stopped workers end, so that the next round does not count them."""
    from runtime.worker.session import host_name, renew_host

    renew_host(host or host_name())


def process_tree(root: psutil.Process) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    return [root, *root.children(recursive=True)]


def database_processes() -> list[psutil.Process]:
    """Return the processes of PostgreSQL when it runs on this host, else none."""
    with plain_tx() as tx:
        pid = int(tx.rows("bench_backend")[0][0])
    try:
        backend = psutil.Process(pid)
        return process_tree(backend.parent()) if backend.name().startswith("postgres") else []
    except psutil.Error:
        return []


def manage_environment(**more: str) -> dict[str, str]:
    """Return our environment with ``more`` added, for a process of the product."""
    return {**os.environ, **more}
