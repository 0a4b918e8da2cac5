"""`manage.py example ensure|seed|reset`: the example tenant ``acme``."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from dashboard.example import reset, setup
from dashboard.example.seed import NotThere, Seed
from runtime.kernel.errors import Unavailable
from runtime.management.cli import Act


class Command(Act):
    help = (
        "ensure: make what is missing of the example tenant. seed: give it runs in every state, once; needs workers. "
        "reset: retire the tenant with all it has and begin again; the people keep their passwords."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["ensure", "seed", "reset"])

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "ensure":
            place = setup.ensure()
            return {"tenant": setup.SLUG, "shop": place.url, "command": setup.shop_command(place)}
        if options["act"] == "reset":
            return {**reset.reset(), **self._seed()}
        return self._seed()

    def _seed(self) -> dict[str, Any]:
        seed = Seed()
        if not seed.needed():
            reason = "Its runs were begun before, and are made once; `manage.py example reset` begins again."
            return {"seeded": False, "reason": reason, "runs": seed.counts()}
        try:
            return {"seeded": True, "runs": seed.run()}
        except NotThere as problem:
            raise Unavailable(f"{problem}.", remediation="Is `manage.py up` running?") from problem
