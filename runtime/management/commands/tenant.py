"""`manage.py tenant list`, `create SLUG`, `member USER --role ROLE`, `settings`, `set KEY VALUE`, `unset KEY`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from runtime.access.roles import ROLES
from runtime.actions.settings import set_setting
from runtime.actions.tenants import add_member, create_tenant
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, service_actor
from runtime.management.example import keep_builtin_samples, register_builtin_tools
from runtime.queries.settings import list_settings
from runtime.store.directory import all_tenants


class Command(Act):
    help = "Tenants, their members, and their settings: where a second person is asked for, when repairs are due."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("create", help="make a tenant with the built-in tools")
        one.add_argument("slug")
        one.add_argument("--name", default="", help="the tenant's name")
        acts.add_parser("list", help="list the tenants by slug")
        two = acts.add_parser("member", help="give an existing user a role in a tenant, or another role")
        two.add_argument("user")
        two.add_argument("--role", choices=sorted(ROLES), help="the role")
        three = acts.add_parser("settings", help="list the settings: what counts, the default, what each takes")
        four = acts.add_parser("set", help="set one of the settings")
        four.add_argument("key", help="its name, as `settings` lists it")
        four.add_argument("value")
        five = acts.add_parser("unset", help="take one of the settings back to its default")
        five.add_argument("key", help="its name, as `settings` lists it")
        for each in (four, five):
            each.add_argument("--reason", default="", help="why; stands in the audit")
        for each in (two, three, four, five):
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "create":
            answer = create_tenant(slug=options["slug"], name=options["name"])
            register_builtin_tools(service_actor(options["slug"]))
            keep_builtin_samples(service_actor(options["slug"]))
            return answer
        if options["act"] == "list":
            return map(asdict, all_tenants())
        if options["act"] == "member":
            return self._member(options)
        actor = service_actor(options["tenant"])
        if options["act"] == "settings":
            return iter(list_settings(actor=actor))
        value = options["value"] if options["act"] == "set" else None
        return set_setting(actor=actor, key=options["key"], value=value, reason=options["reason"])

    def _member(self, options: dict[str, Any]) -> Any:
        if not options["role"]:
            raise BadInput("A member has a role.", where="--role", remediation=f"One of: {', '.join(sorted(ROLES))}.")
        return add_member(actor=service_actor(options["tenant"]), username=options["user"], role=options["role"])
