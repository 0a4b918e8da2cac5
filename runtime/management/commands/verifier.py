"""`manage.py verifier authorise NAME@VERSION [--tenant]`: lets a verifier decide Outcomes in a tenant (A2.5)."""

from __future__ import annotations

import re
from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.workflows import authorise_verifier
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, service_actor

_REFERENCE = re.compile(r"([a-z][a-z0-9_.-]{0,180})@([1-9][0-9]{0,5})")


class Command(Act):
    help = "Authorise a verifier to decide outcomes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["authorise"])
        parser.add_argument("reference", help="name@version, as workflows name it")
        methods = ["machine_check", "human_review", "model_judge"]
        parser.add_argument("--method", choices=methods, default=methods[0])
        parser.add_argument("--description", default="")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        match = _REFERENCE.fullmatch(options["reference"])
        if match is None:
            raise BadInput(
                f"{options['reference'][:100]!r} is no verifier reference.",
                where="reference",
                remediation="Write name@version, for example refund_in_books@1.",
            )
        return authorise_verifier(
            actor=service_actor(options["tenant"]),
            name=match[1],
            version=int(match[2]),
            method=options["method"],
            description=options["description"],
        )
