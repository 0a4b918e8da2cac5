"""`manage.py approvals export|schema`: requests as typed JSON; `groups|group|manager`: whom rules ask;
`delegations|delegate|undelegate`: who decides in whose place."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from approvals.actions.delegations import add_delegation, end_delegation
from approvals.actions.groups import put_group, remove_group, set_manager
from approvals.records import MOST, RECORD_SCHEMA, export_requests
from approvals.standing import DELEGATION_STATES, OPEN, page_delegations
from approvals.teams import list_groups, list_managers
from runtime.api.http import rfc3339
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, every, identity, service_actor


class Command(Act):
    help = "Approvals for other systems, one JSON line each, the oldest first; groups, managers and delegations."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("export", help="print requests with their decisions and action digests")
        one.add_argument("--since", help="asked then or later, such as 2026-12-24T18:00:00Z")
        one.add_argument("--until", help="asked before then")
        one.add_argument("--limit", type=int, default=10_000, help="at most so many (10000)")
        one.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        acts.add_parser("schema", help="print the JSON Schema of what export prints")

        self._add_people(acts)
        self._add_delegations(acts)

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

    def _add_delegations(self, acts: Any) -> None:
        listed = acts.add_parser("delegations", help="print who decides in whose place, one JSON line each")
        listed.add_argument("--state", choices=(*DELEGATION_STATES, OPEN), help="only in this state; open: not ended")
        listed.add_argument("--member", help="only from or to this member")
        one = acts.add_parser("delegate", help="let a member decide in another member's place for a time")
        one.add_argument("giver", help="in whose place, a user name")
        one.add_argument("taker", help="who decides, a user name")
        one.add_argument("--until", required=True, help="when it ends, such as 2026-12-24T18:00:00Z")
        one.add_argument("--since", help="when it begins (now)")
        one.add_argument("--reason", required=True, help="kept in the audit")
        end = acts.add_parser("undelegate", help="end a delegation now, or call it off before it begins")
        end.add_argument("delegation_id", help="its id, as delegations prints it")
        for parser in (listed, one, end):
            parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        if options["act"] == "schema":
            return RECORD_SCHEMA
        if options["act"] == "export":
            return self._export(options)
        if options["act"] in ("delegations", "delegate", "undelegate"):
            return self._delegations(options)
        return self._people(options)

    def _delegations(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        if options["act"] == "delegations":
            return every(page_delegations, actor=actor, state=options["state"], member=options["member"])
        if options["act"] == "undelegate":
            return end_delegation(actor=actor, delegation_id=identity(options["delegation_id"]))
        until, since = rfc3339(options["until"], "--until"), options["since"] and rfc3339(options["since"], "--since")
        return add_delegation(
            actor=actor, whose=options["giver"], to=options["taker"], starts_at=since or None, ends_at=until,
            reason=options["reason"],
        )  # fmt: skip

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
