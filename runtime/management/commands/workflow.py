"""`manage.py workflow check|register FILE`, `recovery [NAME]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions import workflows
from runtime.graph.spec import MAX_SPEC_BYTES
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, read_file, service_actor
from runtime.queries.recovery import DEFAULT_DAYS, MOST_DAYS, recovery_points


class Command(Act):
    help = (
        "check: name every mistake of a workflow and write nothing. register: make it an immutable version. recovery: "
        "measure how much work lost workers cost, by workflow version."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["check", "register", "recovery"])
        parser.add_argument(
            "file", nargs="?", help="a workflow as JSON, - reads stdin; of recovery: only this workflow"
        )
        parser.add_argument("--days", type=int, default=DEFAULT_DAYS, help=f"of runs started within ({DEFAULT_DAYS})")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "recovery":
            return self._recovery(options)
        if options["file"] is None:
            raise BadInput("No file is named.", where="file", remediation="Name a readable file, or -.")
        raw = read_file(options["file"], limit=MAX_SPEC_BYTES)
        actor = service_actor(options["tenant"])
        if options["act"] == "register":
            return workflows.register_workflow(actor=actor, raw=raw)
        plan = workflows.check(actor=actor, raw=raw)
        return {
            "ok": True,
            "name": plan.name,
            "nodes": len(plan.nodes),
            "edges": plan.n_edges,
            "depth": plan.depth,
            "tools": sorted(plan.tools),
        }

    def _recovery(self, options: dict[str, Any]) -> None:
        days, actor = options["days"], service_actor(options["tenant"])
        if not 1 <= days <= MOST_DAYS:
            raise BadInput(f"--days is a number from 1 to {MOST_DAYS}.", where="--days", remediation="Give fewer days.")
        for row in recovery_points(actor=actor, workflow=options["file"], days=days)["items"]:
            self.show(row)
