"""`manage.py escalation show`, `escalation set oncall admin+30 user:ann+60`, `escalation unset`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from repair.actions.chain import set_chain
from repair.chains import read_chain
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, service_actor


class Command(Act):
    help = "Whom a tenant's overdue repair cases are told to, one after the other."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("show", help="print the chain that counts")
        two = acts.add_parser("set", help="set the chain")
        two.add_argument("link", nargs="+", help="WHO+MINUTES after the due date; WHO: a role, user:NAME or owner")
        three = acts.add_parser("unset", help="let the default count again")
        for each in (two, three):
            each.add_argument("--expected-version", type=int, help="the version that was read; without it, the newest")
            each.add_argument("--reason", default="", help="why; stands in the audit")
        for each in (one, two, three):
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        stands = read_chain(actor=actor)
        if options["act"] == "show":
            return stands
        links = [_link(text) for text in options["link"]] if options["act"] == "set" else []
        expected = options["expected_version"]
        return set_chain(
            actor=actor,
            links=links,
            expected_version=stands["version"] if expected is None else expected,
            reason=options["reason"],
        )


def _link(text: str) -> dict[str, Any]:
    """Return the link that WHO or WHO+MINUTES stands for. Raises BadInput for minutes that are no number."""
    to, plus, minutes = text.rpartition("+")
    if not plus:
        return {"to": text, "after_minutes": 0}
    if not (minutes.isascii() and minutes.isdecimal()) or len(minutes) > 6:
        raise BadInput(f"{minutes[:20]!r} is no number of minutes.", where=text[:60], remediation="Write admin+30.")
    return {"to": to, "after_minutes": int(minutes)}
