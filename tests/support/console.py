"""The whole console as a real process tree: `manage.py up` on a data folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil

from runtime.store.embedded import Server
from runtime.worker.children import die_with_parent
from runtime.worker.supervisor import read_state
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
_OF_THE_TESTS = ("DATABASE_URL", "QUARTERDECK_DATA", "QUARTERDECK_DB_ROLE", "DJANGO_SETTINGS_MODULE", "SECRET_KEY")


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Any, seconds: float, what: str) -> Any:
    """Return the first true value of ``condition()``. Raises AssertionError long after ``seconds``."""
    deadline = time.monotonic() + patient(seconds)
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {patient(seconds):.0f} s")


class Console:
    """`manage.py up` on ``home``. ``output`` is everything it and its children have written."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.log = home.parent / f"{home.name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def postgres(self) -> Server:
        return Server(self.home)

    def command(self, *arguments: str) -> list[str]:
        up = [sys.executable, str(ROOT / "manage.py"), "up", "--data", str(self.home), "--port", str(self.port)]
        return [*up, "--workers", "1", "--no-example", *arguments]

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if name not in _OF_THE_TESTS}

    def start(self, *arguments: str) -> Console:
        """Start it in a session of its own, as a terminal or systemd would."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command(*arguments),
                cwd="/",
                env=self.environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        return self

    def wait_ready(self, seconds: float = 60.0) -> float:
        """Wait until it says that it is ready; return how long that took (seconds)."""
        begun, before = time.monotonic(), self.output.count("is ready at")

        def said() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.output[-3000:]
            return self.output.count("is ready at") > before or self.ready()

        wait_for(said, seconds, f"ready\n{self.output[-3000:]}")
        return time.monotonic() - begun

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a GET."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()

    def ready(self) -> bool:
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False

    def child(self, name: str) -> int | None:
        """Return the process id of a child: web, workers, scheduler, heartbeat."""
        with contextlib.suppress(json.JSONDecodeError):
            return read_state(self.home).get("children", {}).get(name, {}).get("pid")
        return None

    def tree(self) -> list[psutil.Process]:
        """Return every process of the console, PostgreSQL's too."""
        main = [psutil.Process(self.pid)] if self.process and self.process.poll() is None else []
        if (postgres := self.postgres.pid()) is not None:
            main.append(psutil.Process(postgres))
        return [process for root in main for process in (root, *root.children(recursive=True))]

    def kill_everything(self) -> None:
        """kill -9 of everything at once, as a power cut does."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it cleanly; return its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(patient(60))
