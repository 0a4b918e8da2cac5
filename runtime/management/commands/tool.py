"""`manage.py tool register FILE [--tenant]`, `manage.py tool retire NAME@VERSION --reason R [--tenant]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.retiring import retire_tool
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, read_json, reference, service_actor
from runtime.tools.contract import MAX_CONTRACT_BYTES
from runtime.tools.registry import register_tool


class Command(Act):
    help = "Register an immutable version of a tool from its contract, or retire one."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("register", help="register a version")
        one.add_argument("file", help="a tool contract as JSON; - reads stdin")
        two = acts.add_parser("retire", help="let no new workflow take a version; runs that name it go on")
        two.add_argument("reference", help="name@version")
        two.add_argument("--reason", required=True)
        for each in (one, two):
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        if options["act"] == "retire":
            name, version = reference(options["reference"], "shop.pay_back@1")
            return retire_tool(actor=actor, name=name, version=version, reason=options["reason"])
        contract = read_json(options["file"], limit=MAX_CONTRACT_BYTES)
        if not isinstance(contract, dict):
            raise BadInput("A tool contract is a JSON object.", where="/", remediation="See GET tools/schema/.")
        return register_tool(actor=actor, contract=contract)
