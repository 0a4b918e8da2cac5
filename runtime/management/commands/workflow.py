"""`manage.py workflow check|register FILE [--tenant]`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions import workflows
from runtime.graph.spec import MAX_SPEC_BYTES
from runtime.management.cli import Act, read_file, service_actor


class Command(Act):
    help = "check: name every mistake of a workflow and write nothing. register: make it an immutable version."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["check", "register"])
        parser.add_argument("file", help="a workflow as JSON; - reads stdin")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
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
