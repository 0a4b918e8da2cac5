"""`manage.py stop set tool|workflow|tenant|global [NAME] --reason …`, `stop list`, `stop lift ID`."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.management.base import CommandParser

from runtime.access import verbs as v
from runtime.actions.stops import lift_stop, set_stop
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, identity, service_actor
from runtime.models.watch import STOP_SCOPES
from runtime.queries.stops import list_stops
from runtime.store.tx import plain_tx


class Command(Act):
    help = "Emergency stops: no new external call of a tool, a workflow, the tenant or (global) everybody starts."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("set", help="set a stop")
        one.add_argument("scope", choices=STOP_SCOPES)
        one.add_argument("name", nargs="?", default="", help="the tool (name or name@version) or the workflow")
        one.add_argument("--reason", required=True)
        one.add_argument("--minutes", type=float, help="ends by itself after so long; without it, when it is lifted")
        one.add_argument("--replaces", metavar="ID", help="the standing stop of the same that this takes the place of")
        two = acts.add_parser("list", help="list stops, those that stand first")
        two.add_argument("--standing", action="store_true", help="only those that stand")
        three = acts.add_parser("lift", help="lift a stop")
        three.add_argument("id")
        three.add_argument("--reason", default="")
        for each in (one, two, three):
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        # Whoever runs manage.py runs the installation.
        actor = Actor(actor.kind, actor.name, actor.tenant_id, actor.verbs | {v.STOP_GLOBAL})
        if options["act"] == "list":
            for stop in list_stops(actor=actor, standing=options["standing"]):
                self.show(stop)
            return None
        if options["act"] == "lift":
            return lift_stop(actor=actor, stop_id=identity(options["id"]), reason=options["reason"])
        until = _until(options["minutes"])
        return set_stop(
            actor=actor,
            scope=options["scope"],
            name=options["name"],
            reason=options["reason"],
            until=until,
            replaces=identity(options["replaces"]) if options["replaces"] else None,
        )


def _until(minutes: float | None) -> datetime | None:
    """Return the end of a stop by the database's clock, which decides when it is over."""
    if minutes is None:
        return None
    if not 0 < minutes <= 60 * 24 * 366:
        raise BadInput("A stop lasts up to a year.", where="--minutes", remediation="Leave it out for an open end.")
    with plain_tx() as tx:
        return tx.now() + timedelta(minutes=minutes)
