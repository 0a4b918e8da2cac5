"""`manage.py verifier authorise|revoke NAME@VERSION [--tenant]`: who decides Outcomes in a tenant (A2.5)."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.retiring import revoke_verifier
from runtime.actions.workflows import authorise_verifier
from runtime.management.cli import Act, reference, service_actor


class Command(Act):
    help = "Authorise a verifier to decide outcomes, or revoke it."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("authorise", help="let it decide outcomes")
        methods = ["machine_check", "human_review", "model_judge"]
        one.add_argument("--method", choices=methods, default=methods[0])
        one.add_argument("--description", default="")
        two = acts.add_parser("revoke", help="let it decide no further one; what it decided stands")
        two.add_argument("--reason", required=True)
        for each in (one, two):
            each.add_argument("reference", help="name@version, as workflows name it")
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        name, version = reference(options["reference"], "refund_in_books@1")
        actor = service_actor(options["tenant"])
        if options["act"] == "revoke":
            return revoke_verifier(actor=actor, name=name, version=version, reason=options["reason"])
        return authorise_verifier(
            actor=actor, name=name, version=version, method=options["method"], description=options["description"]
        )
