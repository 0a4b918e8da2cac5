"""`manage.py runs [--status …] [--workflow …] [--tenant]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.management.cli import Act, service_actor
from runtime.models.work import RUN_STATUSES
from runtime.queries.runs import list_runs


class Command(Act):
    help = "List runs, newest first, one JSON line each."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--status", action="append", default=[], choices=RUN_STATUSES, help="may be given often")
        parser.add_argument("--workflow", help="only runs of this workflow")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        parser.add_argument("--limit", type=int, default=50, help="at most so many (50)")

    def act(self, options: dict[str, Any]) -> Any:
        actor, left, cursor = service_actor(options["tenant"]), options["limit"], None
        while left > 0:
            page = list_runs(
                actor=actor,
                status=options["status"],
                workflow=options["workflow"],
                cursor=cursor,
                limit=min(left, 500),
            )
            for run in page.items:
                self.show(run)
            left, cursor = left - len(page.items), page.next
            if cursor is None:
                break
        return None
