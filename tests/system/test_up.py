"""`manage.py up`: serves, restarts what dies, stops cleanly, and goes on after kill -9 of everything."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections

from runtime.management.commands.up import Command
from tests.support import invariants
from tests.support.console import ROOT, Console, wait_for
from tests.support.factories import make_tenant
from tests.support.nodes import node, sleeping
from tests.support.own_server import aliases_on
from tests.support.patience import patient
from tests.support.specs import tool
from tests.support.workers import Desk, told


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A data folder with a space in its name, shared by this module: its database is made once."""
    folder = Path(tempfile.mkdtemp(prefix="qd-up-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder / "the data"
    place = Console(folder / "the data").postgres.layout.place
    shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def console(home: Path) -> Iterator[Console]:
    running = Console(home).start()
    yield running
    running.kill_everything()


def gone(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_stops_clean(console, number):
    console.wait_ready()
    assert console.get("/healthz") == (200, '{"status": "ok"}')
    assert "quarterdeck_workers 1.0" in console.get("/metrics")[1]
    everything = console.tree()
    assert console.stop(number) == 0
    assert console.output.rstrip().endswith("stopped")
    wait_for(lambda: gone(everything), 5, "every process gone")
    assert console.postgres.pid() is None


@pytest.mark.slow
def test_it_stops_workers_first_and_the_database_last(console):
    """Nobody is left who could want what is gone: who works, who gives work, who asks, what all write to."""
    console.wait_ready()
    order = ["workers", "scheduler", "heartbeat", "web"]
    pids = {name: console.child(name) for name in order} | {"PostgreSQL": console.postgres.pid()}
    ends = {os.pidfd_open(pid): name for name, pid in pids.items()}
    try:
        waiting = select.poll()
        for end in ends:
            waiting.register(end, select.POLLIN)
        os.kill(console.pid, signal.SIGTERM)
        ended: list[str] = []
        while len(ended) < len(ends) and (ready := waiting.poll(patient(60) * 1000)):
            for end, _event in ready:
                waiting.unregister(end)
                ended.append(ends[end])
    finally:
        for end in ends:
            os.close(end)
    assert ended == [*order, "PostgreSQL"]
    assert console.process.wait(patient(30)) == 0


@pytest.mark.slow
def test_a_second_one_on_the_same_folder_says_so(console):
    console.wait_ready()
    second = subprocess.run(
        console.command(), capture_output=True, text=True, env=console.environment(), timeout=patient(60)
    )
    assert second.returncode == 1
    assert f"already runs on {console.home}: process {console.pid}" in second.stderr
    assert console.ready()


def test_a_taken_port_is_named(console):
    console.wait_ready()
    other = Console(console.home.parent / "other")
    other.port = console.port
    refused = subprocess.run(
        other.command(), capture_output=True, text=True, env=other.environment(), timeout=patient(60)
    )
    assert refused.returncode == 1
    assert f"127.0.0.1:{console.port}" in refused.stderr


@pytest.mark.proof
@pytest.mark.parametrize("name", ["web", "workers", "scheduler", "heartbeat"])
def test_a_child_that_dies_is_started_again(console, name):
    console.wait_ready()
    before = console.child(name)
    left = list(psutil.Process(before).children(recursive=True))
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: console.child(name) not in (None, before), 10, f"{name} started again")
    wait_for(lambda: gone(left), 5, "nothing of the dead child's group is left")
    wait_for(console.ready, 30, "ready again")


@pytest.mark.proof
def test_several_web_processes_share_a_port_and_none_is_missed_when_it_dies(home):
    console = Console(home).start("--web", "2")
    try:
        console.wait_ready()
        before = {name: console.child(name) for name in ("web", "web-2")}
        assert None not in before.values()
        address = f"http://127.0.0.1:{console.port}/healthz"
        for name, pid in before.items():
            killed = psutil.Process(pid)
            killed.kill()
            wait_for(lambda killed=killed: gone([killed]), 5, f"{name} gone")
            for _ in range(20):
                # Taken by the other one, or kept in the queue of the socket until one of them comes.
                with urllib.request.urlopen(address, timeout=patient(60)) as answer:
                    assert answer.status == 200
            wait_for(lambda name=name, pid=pid: console.child(name) not in (None, pid), 10, f"{name} started again")
        everything = console.tree()
        assert console.stop() == 0
        wait_for(lambda: gone(everything), 5, "every process gone")
    finally:
        console.kill_everything()


@pytest.mark.proof
def test_postgres_that_dies_is_started_again(console):
    console.wait_ready()
    before = console.postgres.pid()
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: console.postgres.pid() not in (None, before), 30, "PostgreSQL started again")
    wait_for(console.ready, 30, "ready again")


@pytest.mark.proof
def test_a_deaf_cluster_is_started_again(console):
    """A pump that no longer beats: frozen here, deaf by a lost lock in real life."""
    console.wait_ready()
    before = console.child("workers")

    def pumps() -> list[int]:
        found = {int(path.name.removeprefix("pump-")) for path in (console.home / "run").glob("pump-*")}
        return [pid for pid in found if psutil.pid_exists(pid) and os.getpgid(pid) == before]

    for pid in wait_for(pumps, 20, "a pump beats"):
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: console.child("workers") not in (None, before), 30, "cluster started again")
    wait_for(console.ready, 30, "ready again")


@pytest.mark.proof
def test_children_die_with_a_killed_supervisor(console):
    console.wait_ready()
    workers = psutil.Process(console.child("workers"))
    everything = [psutil.Process(console.child(name)) for name in ("web", "scheduler", "heartbeat")]
    everything += [workers, *workers.children(recursive=True)]
    os.kill(console.pid, signal.SIGKILL)
    console.process.wait()
    wait_for(lambda: gone(everything), 5, "children gone with their parent")
    assert console.postgres.pid() is not None, "the database stays: it serves others too"
    again = Console(console.home).start()
    try:
        again.wait_ready()
        assert again.stop() == 0
    finally:
        again.kill_everything()


@pytest.mark.proof
def test_it_goes_on_after_kill_9_of_everything(console):
    console.wait_ready()
    for _ in range(2):
        console.kill_everything()
        again = Console(console.home).start()
        try:
            again.wait_ready()
        finally:
            again.kill_everything()


@pytest.mark.proof
@pytest.mark.req("A6.2", "C4.4", "C3.3", "A5.2")
@pytest.mark.timeout(600)
def test_work_under_way_goes_on_after_kill_9_of_everything(home, database, shop):
    """A call was sent whose answer nobody read, a step ran, one waited for its time: the run ends, with one effect."""
    console = Console(home).start()
    try:
        console.wait_ready(150)
        with aliases_on(console.postgres.url()):
            desk = Desk(make_tenant())
            query = desk.tool({**shop.contract("/lookup/{key}", writes=False), "name": "shop.lookup"})
            asked = {"recovery": "query", "idempotency": "key", "query": query}
            pay = desk.tool(shop.contract("/hang_after", timeout_s=25, **asked))
            flow = desk.workflow(
                node("pay", pay), sleeping("rest", 5), {"id": "pause", "kind": "wait", "seconds": 3},
                tool("end", "pay", "rest", "pause"),
            )  # fmt: skip
            run_id = desk.submit(flow)
            wait_for(shop.effects, 30, "the effect")
            assert told(desk, run_id) == {
                "pay": "running",
                "rest": "running",
                "pause": "waiting(timer)",
                "end": "waiting",
            }
            console.kill_everything()
            connections.close_all()
            console.start().wait_ready(150)
            assert desk.wait(run_id, seconds=90).status == "completed"
            assert {step.status for step in desk.steps(run_id).values()} == {"succeeded"}
            (operation,) = desk.operations(run_id)
            assert (operation.status, operation.sends, len(shop.effects())) == ("succeeded", 1, 1)
            assert {a.outcome for a in desk.attempts(run_id)} >= {"lost", "succeeded"}
            invariants.check(desk.tenant.id)
        assert console.stop() == 0
    finally:
        console.kill_everything()


@pytest.mark.slow
def test_a_second_start_after_a_clean_stop_is_ready_again(home):
    console = Console(home).start()
    try:
        console.wait_ready()
        assert console.stop() == 0
        console.start().wait_ready()  # how fast: `manage.py bench start`
        assert console.stop() == 0
    finally:
        console.kill_everything()


def up_with(folder, *options):
    """`up` as far as its settings, which are wrong here."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "QUARTERDECK_"))}
    wrong = {**ours, "DATABASE_URL": "nonsense://x", "QUARTERDECK_DATA": str(folder)}
    line = [sys.executable, str(ROOT / "manage.py"), "up", *options]
    return subprocess.run(line, cwd=folder, env=wrong, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("options", [[], ["--no-example"], ["--data", "x"], ["--data=x"]])
def test_it_reads_its_line_with_and_without_options(options, tmp_path):
    """As far as its settings, which are wrong here: the second command of README has no options at all."""
    ended = up_with(tmp_path, *options)
    assert ended.stderr.strip() == "Configuration: DATABASE_URL is not the address of a PostgreSQL database."


def test_several_web_processes_at_an_address_of_ipv6_are_refused_with_what_to_do():
    with pytest.raises(CommandError, match=re.escape("share an address of IPv4 only. Bind 127.0.0.1 or 0.0.0.0")):
        call_command("up", "--web", "2", "--bind", "::1", "--port", "8123")


@pytest.mark.parametrize("options", [["--data"], ["--data="], ["--data=", "--port", "8123"], ["--data", "--port"]])
def test_a_folder_that_is_none_is_refused_and_nothing_is_made(options, tmp_path):
    ended = up_with(tmp_path, *options)
    assert ended.returncode == 1
    assert ended.stderr.startswith("--data names no folder")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "99999"], "argument --port: '99999' is no whole number from 1 to 65535"),
        (["--port=-5"], "argument --port: '-5' is no whole number from 1 to 65535"),
        (["--workers", "0"], "argument --workers: '0' is no whole number from 1 to"),
        (["--workers=-1"], "argument --workers: '-1' is no whole number from 1 to"),
        (["--web", "0"], "argument --web: '0' is no whole number from 1 to 64"),
        (["--dat", "elsewhere"], "unrecognized arguments: --dat elsewhere"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_in_words(options, said):
    with pytest.raises(CommandError, match=re.escape(said)):
        Command().create_parser("manage.py", "up").parse_args(options)
