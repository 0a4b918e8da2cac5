"""The django-q2 cluster as we run it: nothing in it waits for a process that was killed, none outlives its parent."""

from __future__ import annotations

import os
import time
import uuid
from multiprocessing import Event
from typing import Any

from django_q.cluster import Cluster, Sentinel, get_mp_context
from django_q.worker import worker

from runtime.worker.bell import bell, closing
from runtime.worker.children import die_with_parent
from runtime.worker.packets import Packets, Timer


class WorkerSentinel(Sentinel):
    """A Sentinel whose queues and timers hold no locks: killing a worker at any instant blocks nobody else."""

    def __init__(self, stop_event: Any, start_event: Any, cluster_id: uuid.UUID, timeout: float | None) -> None:
        super().__init__(stop_event, start_event, cluster_id, timeout=timeout, start=False)
        self.task_queue = Packets()
        self.result_queue = Packets(lossy=True)
        self.start()

    def spawn_worker(self) -> None:
        self.spawn_process(worker, self.task_queue, self.result_queue, Timer(), self.timeout)


class WorkerCluster(Cluster):
    """A Cluster whose ``stop`` first tells busy drains to finish what runs and claim no more."""

    def start(self) -> int:
        """Start the sentinel and wait until it guards. Raises RuntimeError when it ends before."""
        self.stop_event, self.start_event = Event(), Event()
        self.sentinel = get_mp_context().Process(
            target=WorkerSentinel, args=(self.stop_event, self.start_event, self.cluster_id, self.timeout)
        )
        self.sentinel.start()
        # Polled: a signal that stops us meanwhile takes the event away.
        while self.start_event is not None and not self.start_event.is_set():
            if not self.sentinel.is_alive():
                if self.sentinel.exitcode == 0:
                    break
                raise RuntimeError(f"The cluster's sentinel ended with {self.sentinel.exitcode} before it was ready.")
            time.sleep(0.05)
        return int(self.pid)

    def stop(self) -> bool:
        closing.set()
        return bool(super().stop())


def start() -> WorkerCluster:
    """Start the cluster and return it; every process it forks is killed when its parent dies (engine.md 5)."""
    os.register_at_fork(before=bell.count_fork, after_in_child=die_with_parent)
    cluster = WorkerCluster()
    cluster.start()
    return cluster
