"""`manage.py run show|events|replay|rebuild|cancel ID [--until] [--reason] [--tenant]`."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.runs import cancel_run
from runtime.management.cli import Act, identity, service_actor
from runtime.queries.rebuild import rebuild_run
from runtime.queries.replay import replay_run
from runtime.queries.runs import read_events, read_snapshot

PAGE = 1_000


class Command(Act):
    help = (
        "show: the run and its steps. events: its events, one JSON line each. "
        "replay: the run as its events up to --until tell it, and how all of them compare with the rows. "
        "rebuild: fold the events, compare with the rows, exit with 1 on a difference. "
        "cancel: cancel it; what has just succeeded is told so (already_succeeded)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["show", "events", "replay", "rebuild", "cancel"])
        parser.add_argument("id")
        parser.add_argument("--after", type=int, default=0, help="with events: the last seq you have (0)")
        parser.add_argument("--until", type=int, help="with replay: the last seq to be told (the newest)")
        parser.add_argument("--reason", default="", help="with cancel: why")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        run_id, actor = identity(options["id"]), service_actor(options["tenant"])
        if options["act"] == "show":
            return read_snapshot(actor=actor, run_id=run_id)
        if options["act"] == "events":
            return self._events(actor, run_id, options["after"])
        if options["act"] == "cancel":
            return cancel_run(actor=actor, run_id=run_id, reason=options["reason"])
        if options["act"] == "replay":
            return replay_run(actor=actor, run_id=run_id, until=options["until"], most=None)
        differences = rebuild_run(run_id, actor.tenant_id)
        self.show({"run_id": run_id, "ok": not differences, "differences": differences})
        if differences:
            sys.exit(1)
        return None

    def _events(self, actor: Any, run_id: Any, after: int) -> None:
        while True:
            answer = read_events(actor=actor, run_id=run_id, after=after, limit=PAGE)
            for event in answer["events"]:
                self.show(event)
            if answer["last_seq"] >= answer["head_seq"] or not answer["events"]:
                return
            after = answer["last_seq"]
