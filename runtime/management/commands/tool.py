"""`manage.py tool register FILE [--tenant]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, read_json, service_actor
from runtime.tools.contract import MAX_CONTRACT_BYTES
from runtime.tools.registry import register_tool


class Command(Act):
    help = "Register an immutable version of a tool from its contract."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["register"])
        parser.add_argument("file", help="a tool contract as JSON; - reads stdin")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        contract = read_json(options["file"], limit=MAX_CONTRACT_BYTES)
        if not isinstance(contract, dict):
            raise BadInput("A tool contract is a JSON object.", where="/", remediation="See GET tools/schema/.")
        return register_tool(actor=service_actor(options["tenant"]), contract=contract)
