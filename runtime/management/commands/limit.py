"""`manage.py limit set tool|workflow|tenant|global …`, `list`, `remove ID`; `classes`; `breakers`, …; `policy`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.access import verbs as v
from runtime.actions.limits import close_breaker, open_breaker, remove_limit, set_limit, set_policy
from runtime.kernel.actor import Actor
from runtime.management.cli import Act, identity, service_actor
from runtime.models.limits import LIMIT_SCOPES
from runtime.queries.classes import list_classes
from runtime.queries.limits import list_breakers, list_limits, read_policy


class Command(Act):
    help = "Limits of what runs at once and what may start; breakers of tools that fail; regions and scopes of tools."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("set", help="set or change a limit")
        one.add_argument("scope", choices=LIMIT_SCOPES)
        one.add_argument("name", nargs="?", default="", help="the tool (name or name@version) or the workflow")
        one.add_argument("--most", type=int, help="calls that run at once")
        one.add_argument("--calls", type=int, help="calls that start in each --per-s seconds")
        one.add_argument("--per-s", type=float)
        one.add_argument("--reason", default="")
        two = acts.add_parser("list", help="list limits; `breakers` lists the breakers")
        eight = acts.add_parser("classes", help="list the classes of work, what waits of each, and what waits too long")
        seven = acts.add_parser("breakers", help="list breakers with their ids, those that hold calls back first")
        three = acts.add_parser("remove", help="take a limit away")
        three.add_argument("id")
        three.add_argument("--reason", default="")
        four = acts.add_parser("close", help="close a breaker: calls of the tool go on")
        four.add_argument("id", help="as `limit breakers` lists it")
        four.add_argument("--reason", required=True)
        six = acts.add_parser(
            "open", help="open a breaker: no call of the tool starts for a while, then one as a probe"
        )
        six.add_argument("id", help="as `limit breakers` lists it")
        six.add_argument("--seconds", type=float, help="how long (as one that opens by itself)")
        six.add_argument("--reason", required=True)
        five = acts.add_parser("policy", help="show or set the regions and scopes tools may have")
        five.add_argument("--regions", help="comma-separated; 'any' bounds nothing")
        five.add_argument("--scopes", help="comma-separated; 'any' bounds nothing")
        for each in (one, two, three, four, five, six, seven, eight):
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        # Whoever runs manage.py runs the installation.
        actor = Actor(actor.kind, actor.name, actor.tenant_id, actor.verbs | {v.STOP_GLOBAL})
        if options["act"] in ("list", "breakers"):
            return iter(list_limits(actor=actor) if options["act"] == "list" else list_breakers(actor=actor))
        if options["act"] == "classes":
            return list_classes(actor=actor)
        if options["act"] == "remove":
            return remove_limit(actor=actor, limit_id=identity(options["id"]), reason=options["reason"])
        if options["act"] == "close":
            return close_breaker(actor=actor, breaker_id=identity(options["id"]), reason=options["reason"])
        if options["act"] == "open":
            wanted = identity(options["id"])
            return open_breaker(actor=actor, breaker_id=wanted, reason=options["reason"], seconds=options["seconds"])
        if options["act"] == "policy":
            return self._policy(actor, options)
        names = ("scope", "name", "most", "calls", "per_s", "reason")
        return set_limit(actor=actor, **{name: options[name] for name in names})

    def _policy(self, actor: Actor, options: dict[str, Any]) -> Any:
        now = read_policy(actor=actor)
        if options["regions"] is None and options["scopes"] is None:
            return now
        regions, scopes = options["regions"], options["scopes"]
        return set_policy(
            actor=actor,
            data_regions=now["data_regions"] if regions is None else _names(regions),
            scopes=now["scopes"] if scopes is None else _names(scopes),
        )


def _names(text: str) -> list[str] | None:
    return None if text == "any" else [one.strip() for one in text.split(",") if one.strip()]
