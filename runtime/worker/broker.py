"""The doorbell: a django-q2 broker whose message carries nothing. "There is work", says it, and the claim decides.

It listens for NOTIFY and asks the ready index once a second as the floor. A message goes out per idle worker process
of the cluster that has none on its way: busy ones listen themselves (``bell``).
"""

from __future__ import annotations

import os
import time
from typing import Any

import psycopg
import structlog
from django_q.brokers import Broker
from django_q.conf import Conf
from django_q.signing import SignedPackage

from runtime.actions.base import WORK_CHANNEL
from runtime.kernel.conf import conf
from runtime.store.listen import any_ready, listening
from runtime.worker.bell import bell
from runtime.worker.lease import run_dir

log = structlog.get_logger(__name__)


def ring_package() -> str:
    """Return the signed message that makes a worker process drain."""
    return SignedPackage.dumps(
        {"id": "doorbell", "name": "doorbell", "func": "runtime.worker.entry.answer", "args": (), "kwargs": {}}
    )


class Doorbell(Broker):
    """The broker class named in Q_CLUSTER."""

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self._open: Any = None
        self._context: Any = None
        self._message = ""

    def __getstate__(self) -> Any:
        return self.list_key, self._info

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._open = self._context = None
        self._message = ""

    @staticmethod
    def get_connection(list_key: str | None = None) -> None:
        """Nothing is shared before the fork; the pump opens its own connection."""

    def dequeue(self) -> list[tuple[str, str]] | None:
        """Wait up to a second for work; return a ring for each idle worker process that has none."""
        self._beat()
        try:
            # A first ring without work makes each process open its session: it is seen alive before it is needed.
            first = self._open is None
            connection = self._listening()
            if first:
                return self._rings()
            heard = any(True for _ in connection.notifies(timeout=conf().poll_seconds, stop_after=1))
            if not heard and not any_ready(connection, list(conf().pools)):
                return None
        except psycopg.Error as problem:
            log.warning("doorbell lost its connection", problem=str(problem)[:200])
            self._close()
            time.sleep(0.5)
            return None
        return self._rings()

    def _rings(self) -> list[tuple[str, str]]:
        bell.hear()
        self._message = self._message or ring_package()
        return [("ring", self._message)] * bell.rings(Conf.WORKERS)

    def _listening(self) -> psycopg.Connection[Any]:
        if self._open is None:
            self._context = listening(WORK_CHANNEL)
            self._open = self._context.__enter__()
        return self._open

    def _close(self) -> None:
        if self._context is not None:
            try:
                self._context.__exit__(None, None, None)
            except psycopg.Error:
                log.debug("closing a broken connection")
        self._open = self._context = None

    def _beat(self) -> None:
        """Show the supervisor that rings are sent and taken."""
        if not bell.is_deaf():
            (run_dir() / f"pump-{os.getpid()}").touch()

    def queue_size(self) -> int:
        """Return the rings nobody has answered."""
        return bell.unanswered

    def lock_size(self) -> int:
        """Nothing is locked in this queue: leases are our own table's."""
        return 0

    def ping(self) -> bool:
        """The pump proves itself by its beat file."""
        return True

    def info(self) -> str:
        """Return what the cluster's log calls this broker."""
        return "Doorbell"
