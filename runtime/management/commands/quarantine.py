"""`manage.py quarantine list|replay ID|discard ID --reason R`: messages that could not leave the system."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.messages import discard_message, replay_message
from runtime.management.cli import Act, identity, service_actor
from runtime.queries.messages import STATES, list_quarantined


class Command(Act):
    help = "List messages in quarantine, send one again under its own event_id, or discard it."

    def add_arguments(self, parser: CommandParser) -> None:
        shared = CommandParser(add_help=False)
        shared.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("list", parents=[shared]).add_argument("--state", choices=STATES, default="open")
        for name in ("replay", "discard"):
            verb = verbs.add_parser(name, parents=[shared])
            verb.add_argument("id")
            verb.add_argument("--reason", default="", help="why; required to discard")

    def act(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        if options["verb"] == "list":
            return iter(list_quarantined(actor=actor, state=options["state"]))
        act = replay_message if options["verb"] == "replay" else discard_message
        return act(actor=actor, message_id=identity(options["id"]), reason=options["reason"])
