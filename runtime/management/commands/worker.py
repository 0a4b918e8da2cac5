"""`manage.py worker`: a django-q2 cluster whose processes drain our own queue."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run worker processes under django-q2 until SIGTERM (manage.py up starts this)."

    def handle(self, *args: Any, **options: Any) -> None:
        from runtime.worker.cluster import start

        start().sentinel.join()
