"""`manage.py approvals export|schema|groups|group|manager`: requests as typed JSON, and whom rules ask."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from approvals.actions.groups import put_group, remove_group, set_manager
from approvals.records import MOST, RECORD_SCHEMA, export_requests
from approvals.teams import list_groups, list_managers
from runtime.api.http import rfc3339
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, service_actor


class Command(Act):
    help = "Approvals for other systems, one JSON line each, the oldest first; groups that decide, and managers."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("export", help="print requests with their decisions and action digests")
        one.add_argument("--since", help="asked then or later, such as 2026-12-24T18:00:00Z")
        one.add_argument("--until", help="asked before then")
        one.add_argument("--limit", type=int, default=10_000, help="at most so many (10000)")
        one.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        acts.add_parser("schema", help="print the JSON Schema of what export prints")

        self._add_people(acts)

    def _add_people(self, acts: Any) -> None:
        every = [acts.add_parser("groups", help="print the groups that decide, and who is whose manager")]
        group = acts.add_parser("group", help="say who is in a group; it is made where there is none")
        group.add_argument("name", help="the group's name")
        group.add_argument("--members", nargs="*", help="user names; whoever is not named is in it no more")
        group.add_argument("--remove", action="store_true", help="remove the group")
        manager = acts.add_parser("manager", help="say who a member's manager is")
        manager.add_argument("user", help="whose manager")
        manager.add_argument("--is", dest="manager", help="the manager's user name; left out: nobody any more")
        for one in (*every, group, manager):
            one.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        for one in (group, manager):
            one.add_argument("--reason", default="", help="kept in the audit")

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "schema":
            return RECORD_SCHEMA
        return self._export(options) if options["act"] == "export" else self._people(options)

    def _people(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        if options["act"] == "groups":
            return {"groups": list_groups(actor=actor), "managers": list_managers(actor=actor)}
        why = options["reason"]
        if options["act"] == "manager":
            return set_manager(actor=actor, username=options["user"], manager=options["manager"], reason=why)
        if options["remove"]:
            return remove_group(actor=actor, name=options["name"], reason=why)
        if options["members"] is None:
            raise BadInput("Say who is in it.", where="--members", remediation="Name members, or --remove the group.")
        return put_group(actor=actor, name=options["name"], members=options["members"], reason=why)

    def _export(self, options: dict[str, Any]) -> Any:
        actor, left, cursor = service_actor(options["tenant"]), options["limit"], None
        times = {
            name: None if options[name] is None else rfc3339(options[name], f"--{name}") for name in ("since", "until")
        }
        while left > 0:
            page = export_requests(actor=actor, cursor=cursor, limit=min(left, MOST), **times)
            for record in page.items:
                self.show(record)
            left, cursor = left - len(page.items), page.next
            if cursor is None:
                break
        return None
