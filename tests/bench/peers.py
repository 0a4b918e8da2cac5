"""What a user would pick instead: installed into environments of their own and run on the same server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(os.environ.get("QUARTERDECK_BENCH_PEERS") or ROOT.parent / "shared" / "bench_peers").resolve()
BUILD = ROOT / "build" / "bench"
RUNS = os.environ.get("QUARTERDECK_BENCH_PEER_RUNS", "200")
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Peer:
    """A peer: its environment's name and packages, its script with arguments, and a program it needs besides."""

    name: str
    packages: tuple[str, ...]
    command: tuple[str, ...]
    program: str | None = None

    @property
    def python(self) -> Path:
        return BUILD / "venvs" / self.name / "bin" / "python"

    def missing(self) -> str:
        """Return what keeps it from running, installing what can be installed; "" when nothing does."""
        if not (SCRIPTS / self.command[0]).exists():
            return f"{self.command[0]} is not in {SCRIPTS} (QUARTERDECK_BENCH_PEERS)"
        if self.program and not shutil.which(self.program):
            return f"{self.program} is not on PATH"
        mark = self.python.parent.parent / "installed"
        if mark.exists() and mark.read_text() == " ".join(self.packages):
            return ""
        done = _install(self.python.parent.parent, self.packages)
        if done.returncode:
            return f"not installed: {_last(done.stderr)}"
        mark.write_text(" ".join(self.packages))
        return ""


PEERS = (
    Peer("dbos", ("dbos", "psycopg[binary]"), ("peer_dbos.py", "w1", "--variants", "async", "--procs", "2")),
    Peer("procrastinate", ("procrastinate", "psycopg[binary,pool]"), ("peer_procrastinate.py", "w1")),
    Peer(
        "celery",
        ("celery", "redis", "packaging", "psycopg[binary]"),
        ("peer_celery.py", "w1", "--fsync", "0"),
        program="redis-server",
    ),
    Peer(
        "q2",
        ("django", "django-q2", "psycopg[binary,pool]"),
        ("peer_q2.py", "w1", "--workers", "2", "--variants", "tuned"),
    ),
)
# Slow ones: only when QUARTERDECK_BENCH_SLOW is set.
SLOW = (
    Peer("prefect", ("prefect", "asyncpg", "psycopg[binary]"), ("peer_prefect.py", "w1", "--runs", "50")),
    Peer(
        "airflow",
        (
            "apache-airflow==3.3.*",
            "apache-airflow-providers-standard",
            "psycopg2-binary",
            "asyncpg",
            "psycopg[binary]",
        ),
        ("peer_airflow.py", "w1", "--runs", "20"),
    ),
)


def chosen() -> list[Peer]:
    """Return the peers to run, in the order of a round."""
    names = os.environ.get("QUARTERDECK_BENCH_ONLY", "")
    every = [*PEERS, *(SLOW if os.environ.get("QUARTERDECK_BENCH_SLOW") else ())]
    return [peer for peer in every if not names or peer.name in names.split(",")]


def run(peer: Peer, environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Run W1 of a peer and yield its lines, or one that tells how it failed."""
    runs = () if "--runs" in peer.command else ("--runs", RUNS)
    command = [str(peer.python), str(SCRIPTS / peer.command[0]), *peer.command[1:], *runs]
    yield from lines(peer.name, command, environment)


def reference(environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Run pgbench's two transactions a step: what the machine gives at this moment."""
    if not shutil.which("pgbench", path=environment["PATH"]) or not (SCRIPTS / "pgbench_limit.py").exists():
        return
    arguments = ["--secs", "2", "--repeats", "1", "--clients", "4", "--variants", "two_tx_cte"]
    yield from lines("pgbench", [sys.executable, str(SCRIPTS / "pgbench_limit.py"), *arguments], environment)


def lines(
    name: str, command: list[str], environment: dict[str, str], seconds: int = TIMEOUT_SECONDS
) -> Iterator[dict[str, Any]]:
    """Run a command for at most ``seconds``, in a session of its own, and yield the JSON lines it prints."""
    work = BUILD / "work"
    work.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        command, cwd=work, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        out, err = "", f"not done in {seconds} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    yield from found
    if not found:
        yield {"peer": name, "failed": _last(err)}


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1][:300]


def _install(folder: Path, packages: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).parent / "uv"
    uv = str(beside) if beside.exists() else shutil.which("uv")
    shutil.rmtree(folder, ignore_errors=True)
    if uv:
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
        fill = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *packages]
    else:
        make = [sys.executable, "-m", "venv", str(folder)]
        fill = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
    done = subprocess.run(make, capture_output=True, text=True, check=False)
    return done if done.returncode else subprocess.run(fill, capture_output=True, text=True, check=False)
