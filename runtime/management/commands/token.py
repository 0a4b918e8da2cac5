"""`manage.py token USER [--verbs …] [--days N]`: print a new API token, once; `token list`, `token revoke ID`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.tokens import issue_token, revoke_token
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, every, identity, service_actor
from runtime.queries.people import page_tokens


class Command(Act):
    help = (
        "Issue an API token for a member and print it; it is stored hashed and cannot be shown again. list, revoke ID."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", metavar="USER|list|revoke", help="whose token; or what to do with those there are")
        parser.add_argument("id", nargs="?", help="with revoke: the token's id, as list prints it")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        parser.add_argument("--verbs", help="comma-separated verbs to narrow the token to (all of the role)")
        parser.add_argument("--days", type=float, default=30, help="days until it expires (30)")
        parser.add_argument("--json", action="store_true", help="print the whole answer, not the token alone")

    def act(self, options: dict[str, Any]) -> Any:
        actor, asked = service_actor(options["tenant"]), options["user"]
        if asked == "revoke":
            return revoke_token(actor=actor, token_id=identity(options["id"] or ""))
        if options["id"] is not None:
            raise BadInput("An id goes with revoke alone.", where="ID", remediation="Write: token revoke ID.")
        if asked == "list":
            return every(page_tokens, actor=actor)
        answer = issue_token(
            actor=actor,
            username=asked,
            name="command line",
            verbs=[verb.strip() for verb in options["verbs"].split(",")] if options["verbs"] else None,
            days=options["days"],
        )
        if options["json"]:
            return answer
        self.stdout.write(answer["token"])
        return None
