"""`manage.py token USER --tenant SLUG [--verbs …] [--days N]`: print a new API token, once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.tokens import issue_token
from runtime.management.cli import Act, service_actor


class Command(Act):
    help = "Issue an API token for a member and print it; it is stored hashed and cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        parser.add_argument("--verbs", help="comma-separated verbs to narrow the token to (all of the role)")
        parser.add_argument("--days", type=float, default=30, help="days until it expires (30)")
        parser.add_argument("--json", action="store_true", help="print the whole answer, not the token alone")

    def act(self, options: dict[str, Any]) -> Any:
        answer = issue_token(
            actor=service_actor(options["tenant"]),
            username=options["user"],
            name="command line",
            verbs=[verb.strip() for verb in options["verbs"].split(",")] if options["verbs"] else None,
            days=options["days"],
        )
        if options["json"]:
            return answer
        self.stdout.write(answer["token"])
        return None
