"""The whole console as ``manage.py up`` runs it: its start, what it uses while idle, its memory."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings
from django.db import connections

from runtime.kernel.errors import ConfigurationError
from runtime.management.bench.figures import line
from runtime.management.bench.stack import (
    database_processes,
    manage_environment,
    process_tree,
    wait_until,
    workers_alive,
)
from runtime.management.commands.up import not_ready

START_SECONDS, STOP_SECONDS, SETTLE_SECONDS = 120.0, 60.0, 5.0


class Console:
    """`manage.py up` on a free port, without the example. Use it as a context; it is ready inside."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.seconds = 0.0

    def __enter__(self) -> Console:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        up = [sys.executable, str(settings.BASE_DIR / "manage.py"), "up", "--no-example"]
        begun = time.monotonic()
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*up, "--port", str(port), "--workers", str(self.workers)],
            env=manage_environment(LOG_LEVEL="WARNING"), stdout=self.log, stderr=self.log, start_new_session=True,
        )  # fmt: skip
        try:
            wait_until(lambda: self._ready(port), START_SECONDS, "/readyz", 0.01)
        except BaseException:
            self._stop()
            raise
        self.seconds = time.monotonic() - begun
        return self

    def _ready(self, port: int) -> bool:
        if self.process.poll() is not None:
            self.log.seek(0)
            raise ConfigurationError(f"`manage.py up` ended.\n{self.log.read()[-2000:]}")
        return not not_ready(f"http://127.0.0.1:{port}/")

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def _stop(self) -> None:
        connections.close_all()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(STOP_SECONDS)
        self.log.close()

    def wait_workers(self) -> None:
        """Wait until as many workers hold a lease as were asked for."""
        wait_until(lambda: workers_alive() >= self.workers, 60.0, f"{self.workers} workers", 0.05)

    def tree(self) -> list[psutil.Process]:
        """Return the processes of the console, PostgreSQL's too where it runs on this host."""
        ours = process_tree(psutil.Process(self.process.pid))
        return [*ours, *(one for one in database_processes() if one not in ours)]


def start(options: dict[str, Any]) -> dict[str, Any]:
    """A warm start: from `manage.py up` on a data folder that is there to /readyz answering 200, in seconds.

    Without the example, as an installation that works for real: no shop is started and nobody submits.
    """
    with Console(options["workers"]):
        pass
    found = []
    for _ in range(options["repeat"]):
        with Console(options["workers"]) as console:
            found.append(console.seconds)
    return line("start", "warm start of up --no-example until /readyz", "s", found, workers=options["workers"])


def idle(options: dict[str, Any]) -> dict[str, Any]:
    """What the console uses while nothing is to be done: percent of one core, and memory by process.

    That is PostgreSQL, web, workers, heartbeat, scheduler and their supervisor. Without the example, whose shop is no
    part of the product and whose runs would be work.
    """
    with Console(options["workers"]) as console:
        console.wait_workers()
        time.sleep(SETTLE_SECONDS)
        before, begun = _cpu(console), time.monotonic()
        time.sleep(options["seconds"])
        after, seconds = _cpu(console), time.monotonic() - begun
        memory = _memory(console)
    used = {name: 100 * (after.get(name, 0.0) - before.get(name, 0.0)) / seconds for name in after}
    return line(
        "idle", "up --no-example with nothing to do", "% of a core", [sum(used.values())],
        by_process={name: value for name, value in sorted(used.items()) if value >= 0.005},
        pss_mb=memory, pss_mb_total=sum(memory.values()), seconds=seconds, workers=options["workers"],
    )  # fmt: skip


def _cpu(console: Console) -> dict[str, float]:
    """Return processor seconds by kind of process; those that ended count where they were waited for."""
    found: dict[str, float] = {}
    for process in console.tree():
        try:
            name, times = _name(process), process.cpu_times()
        except psutil.Error:
            continue
        spent = times.user + times.system + times.children_user + times.children_system
        found[name] = found.get(name, 0.0) + spent
    return found


def _memory(console: Console) -> dict[str, float]:
    """Return proportional set size (MB) by kind of process: shared pages count once in all."""
    found: dict[str, float] = {}
    for process in console.tree():
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            name = _name(process)
        except (OSError, psutil.Error):
            continue
        kilobytes = int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])  # type: ignore[index]
        found[name] = found.get(name, 0.0) + kilobytes / 1024
    return {name: round(value, 1) for name, value in sorted(found.items())}


def _name(process: psutil.Process) -> str:
    command = process.cmdline()
    if process.name().startswith("postgres"):
        return "postgres"
    if "daphne" in command:
        return "web"
    place = next((i for i, part in enumerate(command) if part.endswith("manage.py")), None)
    return command[place + 1] if place is not None and place + 1 < len(command) else process.name()
