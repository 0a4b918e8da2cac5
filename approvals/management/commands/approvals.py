"""`manage.py approvals export [--since] [--until] [--limit] [--tenant]`: requests and decisions as typed JSON."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from approvals.records import MOST, RECORD_SCHEMA, export_requests
from runtime.api.http import rfc3339
from runtime.management.cli import Act, service_actor


class Command(Act):
    help = "Approvals for other systems: every request with its decisions, one JSON line each, the oldest first."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("export", help="print requests with their decisions and action digests")
        one.add_argument("--since", help="asked then or later, such as 2026-12-24T18:00:00Z")
        one.add_argument("--until", help="asked before then")
        one.add_argument("--limit", type=int, default=10_000, help="at most so many (10000)")
        one.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        acts.add_parser("schema", help="print the JSON Schema of what export prints")

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "schema":
            return RECORD_SCHEMA
        actor, left, cursor = service_actor(options["tenant"]), options["limit"], None
        times = {
            name: None if options[name] is None else rfc3339(options[name], f"--{name}") for name in ("since", "until")
        }
        while left > 0:
            page = export_requests(actor=actor, cursor=cursor, limit=min(left, MOST), **times)
            for record in page.items:
                self.show(record)
            left, cursor = left - len(page.items), page.next
            if cursor is None:
                break
        return None
