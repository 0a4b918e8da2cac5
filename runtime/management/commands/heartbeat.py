"""`manage.py heartbeat`: runs the heartbeat process until SIGTERM."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from runtime.worker import heartbeat


class Command(BaseCommand):
    help = "Run the heartbeat process (manage.py up starts it)."

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        heartbeat.run(stop)
