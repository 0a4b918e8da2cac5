"""Which worker clusters the supervisor takes for deaf: one without a beat for long, not one whose pump just died."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.worker import supervisor as module
from runtime.worker.children import Child
from runtime.worker.supervisor import Supervisor

pytestmark = pytest.mark.req("C2.9")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Child]:
    """A process that stands for a worker cluster and was started long ago."""
    (tmp_path / "run").mkdir()
    child = Child("workers", [sys.executable, "-c", "import time; time.sleep(60)"], tmp_path)
    child.start()
    child.started_at -= 1000.0
    yield child
    child.kill()


def beat(tmp_path: Path, child: Child) -> Path:
    path = tmp_path / "run" / f"pump-{child.pid}"
    path.touch()
    return path


def test_a_cluster_whose_pump_died_has_time_to_start_another(cluster, tmp_path, monkeypatch):
    watch = Supervisor(tmp_path, [cluster], ["workers"])
    pump, pid = beat(tmp_path, cluster), cluster.pid
    watch._restart_deaf_clusters()
    pump.unlink()
    watch._restart_deaf_clusters()
    assert cluster.pid == pid, "it goes on with what it runs"
    monkeypatch.setattr(module, "PUMP_FIRST_SECONDS", 0.1)
    time.sleep(0.2)
    watch._restart_deaf_clusters()
    assert cluster.pid is None, "no other pump came"


def test_a_step_of_the_wall_clock_makes_no_cluster_deaf_and_silence_does(cluster, tmp_path, monkeypatch):
    watch = Supervisor(tmp_path, [cluster], ["workers"])
    pump, pid = beat(tmp_path, cluster), cluster.pid
    os.utime(pump, (time.time() - 3600,) * 2)
    watch._restart_deaf_clusters()
    assert cluster.pid == pid
    monkeypatch.setattr(module, "PUMP_STALE_SECONDS", 0.1)
    time.sleep(0.2)
    pump.touch()
    watch._restart_deaf_clusters()
    assert cluster.pid == pid, "it has beaten again"
    time.sleep(0.2)
    watch._restart_deaf_clusters()
    assert cluster.pid is None
