"""`manage.py scheduler`: runs the scheduler process until SIGTERM."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand

from runtime.worker import scheduler


class Command(BaseCommand):
    help = "Run the scheduler process (manage.py up starts it)."

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        scheduler.run(stop)
