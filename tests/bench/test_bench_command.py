"""`manage.py bench`: its arguments, and the line it prints, with tiny sizes and real worker processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from runtime.kernel import seams
from runtime.management.bench.figures import AIMS, line, percentile
from runtime.management.commands.bench import BENCHES
from tests.bench.__main__ import SINGLES, summary
from tests.support.db import Database
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
KEYS = ("bench", "work", "unit", "value", "p50", "p95", "p99", "n", "load1", "spin_ms")


def bench(database: Database, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a benchmark in a data folder of its own: those of a whole `up` would refuse to share one with another."""
    with tempfile.TemporaryDirectory(prefix="qd-bench-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        return subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "bench", *arguments],
            env={**database.environ(), "QUARTERDECK_DATA": folder}, capture_output=True, text=True,
            timeout=patient(100), check=False,
        )  # fmt: skip


def printed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    found: dict[str, Any] = json.loads(done.stdout)
    assert [key for key in KEYS if key not in found] == []
    return found


def test_percentiles():
    assert [percentile(range(101), p) for p in (0, 50, 95, 99, 100)] == [0, 50, 95, 99, 100]
    assert percentile([7], 99) == 7


def test_a_line_has_the_median_and_what_belongs_to_it():
    found = line("x", "work", "ms", [3.0, 1.0, 2.0], extra={"a": 1.23456789})
    assert (found["value"], found["p50"], found["n"], found["extra"]) == (2.0, 2.0, 3, {"a": 1.2346})


def test_a_line_tells_its_figure_beside_what_is_aimed_at():
    assert "aim" not in line("x", "work", "ms", [1.0])
    found = line("latency", "work", "ms", [2.0, 2.0, 20.0])
    assert found["aim"] == {"p50": {"most": 3, "reached": True}, "p95": {"most": 10, "reached": False}}
    found = line("bulk", "work", "tasks/s", [5000.0], tasks_per_s=4999.0)
    assert found["aim"] == {"tasks_per_s": {"least": 5000, "reached": False}}


def test_every_bench_has_an_aim_and_is_run_by_make_bench():
    every = {*BENCHES, *seams.benches()}
    assert {arguments[0] for arguments in SINGLES.values()} == every - {"throughput"}, "throughput has the rounds"
    assert set(AIMS) - {"rounds"} == every - {"throughput"}
    assert SINGLES["blocked-limit"][-2:] == ["--by", "limit"]
    assert "--bounded" in SINGLES["latency-bounded"]


def test_the_summary_of_the_rounds_tells_its_aims():
    rounds = [{"quarterdeck": 3000.0, "dbos": 290.0, "celery": 500.0}, {"quarterdeck": 3200.0, "dbos": 300.0}]
    found = summary(rounds, "15.6")
    assert (found["ours_by_dbos"], found["ours_by_best_peer"]) == (10.51, 8.33)
    assert found["aim"] == {
        "ours_by_dbos": {"least": 10, "reached": True},
        "ours_by_best_peer": {"least": 5, "reached": True},
    }
    alone = summary([{"quarterdeck": 3000.0}], "15.6")
    assert alone["aim"]["ours_by_dbos"] == {"least": 10, "reached": None}, "nobody was measured against"


def test_throughput_runs_real_workers_and_proves_what_was_kept(fresh_db):
    found = printed(bench(fresh_db, "throughput", "--runs", "20", "--repeat", "2", "--workers", "1"))
    assert (found["bench"], found["unit"], found["n"], found["workers"]) == ("throughput", "steps/s", 2, 1)
    assert found["value"] > 0
    assert found["proved"]["steps"] == found["proved"]["checkpoints"] == 10 * found["proved"]["runs"]
    assert found["proved"]["gaps"] == 0


def test_latency_is_measured_to_the_body_of_the_step(fresh_db):
    found = printed(bench(fresh_db, "latency", "--samples", "2", "--workers", "1"))
    assert (found["unit"], found["n"], found["runs"]) == ("ms", 2, "thread")
    assert found["min"] <= found["p50"] <= found["max"] < 10_000
    assert set(found["aim"]) == {figure for figure, _side, _number in AIMS["latency"]}


@pytest.mark.slow
def test_latency_is_measured_under_limits_and_a_policy_too(fresh_db):
    found = printed(bench(fresh_db, "latency", "--samples", "2", "--workers", "1", "--bounded"))
    assert (found["n"], found["bounded"]) == (2, True)


@pytest.mark.slow
def test_work_parked_by_a_limit_stands_in_nobodys_way(fresh_db):
    found = printed(bench(fresh_db, "blocked", "--repeat", "1", "--parked", "40", "--runs", "10", "--by", "limit"))
    assert (found["unit"], found["by"]) == ("ratio", "limit")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "unit"),
    [
        ("wide", ("--width", "30", "--runs", "10"), "steps/s"),
        ("flat", ("--fill", "400", "--runs", "10", "--bounded"), "ratio"),
        ("bounded", ("--runs", "10"), "ratio"),
        ("lost", ("--samples", "1"), "ms"),
        ("blocked", ("--parked", "40", "--runs", "10"), "ratio"),
        ("recovery", ("--samples", "1"), "ms"),
        ("approval", ("--samples", "2"), "ms"),
        ("inbox", ("--pending", "6", "--tenants", "2", "--samples", "3"), "ms"),
        ("repairs", ("--samples", "1", "--fill", "200"), "ms"),
        ("bulkrepair", ("--samples", "2", "--fill", "6"), "ms"),
        ("effects", ("--runs", "20"), "steps/s"),
        ("submit", ("--seconds", "1"), "ms"),
        ("bulk", ("--seconds", "1"), "tasks/s"),
        ("start", (), "s"),
        ("idle", ("--seconds", "1"), "% of a core"),
    ],
)
def test_the_others(fresh_db, name, arguments, unit):
    found = printed(bench(fresh_db, name, "--repeat", "1", *arguments))
    assert (found["bench"], found["unit"]) == (name, unit)
    assert set(found["aim"]) == {figure for figure, _side, _number in AIMS[name]}


@pytest.mark.slow
def test_approvers_figures_stand_beside_their_aims_and_nobody_decides_twice(fresh_db):
    found = printed(bench(fresh_db, "decide", "--samples", "4"))
    assert (found["aim"]["p95"]["most"], found["approvers"], found["decided"]) == (25, 20, 4)
    assert 0 < found["refused"] <= 19 * 4, "who came second was told that it is decided"


def test_an_unknown_bench_is_wrong_usage(fresh_db):
    done = bench(fresh_db, "speed")
    assert done.returncode == 2
    assert "throughput" in done.stderr


def test_without_workers_it_says_so(fresh_db):
    done = bench(fresh_db, "throughput", "--workers-running", "--runs", "1")
    assert done.returncode == 1
    problem = json.loads(done.stderr)
    assert "manage.py worker" in problem["remediation"]
