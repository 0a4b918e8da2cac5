"""`manage.py tenant create SLUG` and `tenant member USER --role ROLE`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.access.roles import ROLES
from runtime.actions.tenants import add_member, create_tenant
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, service_actor
from runtime.management.example import register_builtin_tools


class Command(Act):
    help = "create SLUG: a tenant with the built-in tools. member USER: give an existing user a role in a tenant."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["create", "member"])
        parser.add_argument("subject", metavar="SLUG|USER")
        parser.add_argument("--name", default="", help="with create: the tenant's name")
        parser.add_argument("--role", choices=sorted(ROLES), help="with member: the role")
        parser.add_argument("--tenant", help="with member: slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "create":
            answer = create_tenant(slug=options["subject"], name=options["name"])
            register_builtin_tools(service_actor(options["subject"]))
            return answer
        if not options["role"]:
            raise BadInput("A member has a role.", where="--role", remediation=f"One of: {', '.join(sorted(ROLES))}.")
        return add_member(actor=service_actor(options["tenant"]), username=options["subject"], role=options["role"])
