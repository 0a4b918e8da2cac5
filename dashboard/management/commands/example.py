"""`manage.py example ensure|seed|passwords|reset`: the example tenant ``acme``."""

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
        "passwords: give its people new passwords and print them, once. "
        "reset: retire the tenant with all it has and begin again; the people keep their passwords."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["ensure", "seed", "passwords", "reset"])

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "ensure":
            made = setup.ensure()
            command = setup.shop_command(made.place)
            return {"tenant": setup.SLUG, "shop": made.place.url, "command": command, "sign_ins": made.sign_ins}
        if options["act"] == "passwords":
            return {"tenant": setup.SLUG, "sign_ins": setup.new_passwords()}
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
