"""`manage.py workflow list`, `check|register FILE`, `recovery [NAME]`, each with `[--tenant]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions import workflows
from runtime.graph.spec import MAX_SPEC_BYTES
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, every, read_file, service_actor
from runtime.queries.definitions import list_workflows
from runtime.queries.recovery import DEFAULT_DAYS, MOST_DAYS, recovery_points


class Command(Act):
    help = (
        "check: name every mistake of a workflow and write nothing. register: make it an immutable version. "
        "Both warn where it would ask people who are not there. "
        "list: those that are registered. recovery: measure how much work lost workers cost, by workflow version."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        shared = CommandParser(add_help=False)
        shared.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        acts = parser.add_subparsers(dest="act", required=True)
        acts.add_parser("list", parents=[shared], help="list the registered workflows by name")
        for name in ("check", "register"):
            acts.add_parser(name, parents=[shared]).add_argument("file", help="a workflow as JSON; - reads stdin")
        one = acts.add_parser("recovery", parents=[shared], help="what lost workers cost, by workflow version")
        one.add_argument("file", nargs="?", metavar="name", help="only this workflow")
        one.add_argument("--days", type=int, default=DEFAULT_DAYS, help=f"of runs started within ({DEFAULT_DAYS})")

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "list":
            return every(list_workflows, actor=service_actor(options["tenant"]))
        if options["act"] == "recovery":
            return self._recovery(options)
        raw = read_file(options["file"], limit=MAX_SPEC_BYTES)
        actor = service_actor(options["tenant"])
        if options["act"] == "register":
            return workflows.register_workflow(actor=actor, raw=raw)
        return workflows.check(actor=actor, raw=raw)

    def _recovery(self, options: dict[str, Any]) -> None:
        days, actor = options["days"], service_actor(options["tenant"])
        if not 1 <= days <= MOST_DAYS:
            raise BadInput(
                f"--days is a number from 1 to {MOST_DAYS}.", where="--days", remediation="Give a number in that range."
            )
        for row in recovery_points(actor=actor, workflow=options["file"], days=days)["items"]:
            self.show(row)
