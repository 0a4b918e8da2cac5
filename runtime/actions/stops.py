"""Emergency stops: no new external call of a tool, a workflow, the tenant or the installation starts.

Calls that were sent already go on to their end; steps that would call hold back and go on when the stop is lifted or
its time is over. Workers hear of a stop within a second; a writing call asks again in the transaction of its intent.
"""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.actions.base import CONTROL_CHANNEL, WORK_CHANNEL, check_reason
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, NotFound, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.models.watch import STOP_SCOPES
from runtime.store import directory
from runtime.store.tx import Tx, tenant_tx

# Workers drop what they remember of stops when they hear this on the control channel.
STOPS_CHANGED = "stops"
_TOOL = re.compile(r"[a-z][a-z0-9_.-]{0,119}(@[1-9][0-9]{0,8})?")


def set_stop(*, actor: Actor, scope: str, name: str = "", reason: str, until: datetime | None = None) -> dict[str, Any]:
    """Stop a tool (``name``, or ``name@version``), a workflow, the whole tenant, or with ``global`` everybody.

    Returns {stop_id, scope, name, reason, set_by, set_at, until}, and ``warning`` when nothing of that name is
    registered yet: it is stopped too, but in a hurry a name is soon misspelt. Raises
    BadInput, PermissionDenied. Verb ``stop.set``; a global stop needs ``stop.global``, or an admin's hand in the
    operator's tenant.
    """
    authorize(actor, v.STOP_SET)
    text = check_reason(reason, required=True)
    _check_subject(scope, name)
    if scope == "global":
        check_operator(actor, "stop the whole installation", "stop set global --reason …")
    stop_id = uuid7()
    with tenant_tx(actor.tenant_id) as tx:
        _check_until(tx, until)
        if scope == "global":
            row = tx.one("insert_global_stop", (stop_id, tx.tenant_id, text, actor.label, until))
        else:
            row = tx.one("insert_stop", (stop_id, tx.tenant_id, scope, name, text, actor.label, until))
        tx.notify(CONTROL_CHANNEL, STOPS_CHANGED)
        known = _is_known(tx, scope, name)
        _record(tx, actor, v.STOP_SET, stop_id, "stopped", text, scope, name, until)
    warning = {} if known else {"warning": f"No {scope} {name!r} is registered: nothing that runs today is stopped."}
    return {
        **warning,
        "stop_id": str(stop_id),
        "scope": scope,
        "name": name,
        "reason": text,
        "set_by": actor.label,
        "set_at": row[0],  # type: ignore[index]
        "until": until,
    }


def lift_stop(*, actor: Actor, stop_id: uuid.UUID, reason: str = "") -> dict[str, Any]:
    """Lift a stop and return {stop_id, lifted, scope, name}; one that was lifted before stays so.

    What it held back goes on within a second. Raises NotFound, PermissionDenied. Verb ``stop.lift``.
    """
    authorize(actor, v.STOP_LIFT)
    text = check_reason(reason)
    with tenant_tx(actor.tenant_id) as tx:
        found = tx.dicts("read_stops", {"id": stop_id, "standing": False, "limit": 1})
        if not found:
            raise NotFound("There is no stop of that id in this tenant.")
        stop = found[0]
        if stop["scope"] == "global":
            check_operator(actor, "stop the whole installation", "stop set global --reason …")
        query = "lift_global_stop" if stop["scope"] == "global" else "lift_stop"
        if tx.one(query, (actor.label, text, stop_id)) is not None:
            tx.notify(CONTROL_CHANNEL, STOPS_CHANGED)
            tx.notify(WORK_CHANNEL)
            _record(tx, actor, v.STOP_LIFT, stop_id, "lifted", text, stop["scope"], stop["name"], None)
    return {"stop_id": str(stop_id), "lifted": True, "scope": stop["scope"], "name": stop["name"]}


def _is_known(tx: Tx, scope: str, name: str) -> bool:
    if scope not in ("tool", "workflow"):
        return True
    bare, _, number = name.partition("@")
    query = "tool_is_known" if scope == "tool" else "workflow_is_known"
    row = tx.one(query, {"name": bare if scope == "tool" else name, "number": int(number or 0) or None})
    return bool(row and row[0])


def _check_subject(scope: str, name: str) -> None:
    if scope not in STOP_SCOPES:
        raise BadInput("There is no such scope.", where="/scope", remediation=f"Use one of: {', '.join(STOP_SCOPES)}.")
    if scope in ("tenant", "global"):
        if name:
            raise BadInput(f"A stop of the scope {scope} has no name.", where="/name", remediation="Leave it out.")
    elif scope == "tool" and not _TOOL.fullmatch(name):
        raise BadInput(
            "A tool is named with or without its version.",
            where="/name",
            remediation="Write `shop.refund` or `shop.refund@1`.",
        )
    elif not 0 < len(name) <= 200 or not name.isprintable():
        raise BadInput("The name of a workflow is required.", where="/name", remediation="Name a workflow.")


def _check_until(tx: Tx, until: datetime | None) -> None:
    if until is not None and until <= tx.now():
        raise BadInput(
            "The end of the stop lies in the past.", where="/until", remediation="Name a later time, or none."
        )


def check_operator(actor: Actor, what: str, command: str) -> None:
    """Only the installation's operators act on everybody: they hold ``stop.global``, or run the operator's tenant.

    That is the tenant named by QUARTERDECK_OPERATOR_TENANT; without one, the only tenant there is.
    """
    if may(actor, v.STOP_GLOBAL):
        return
    tenants = [one for one in directory.all_tenants() if not one.suspended]
    named = conf().operator_tenant
    mine = [one for one in tenants if one.id == actor.tenant_id]
    operator = bool(mine) and (mine[0].slug == named if named else len(tenants) == 1)
    if not operator or not may(actor, v.MEMBER_MANAGE):
        raise PermissionDenied(
            f"{actor.label} may not {what}.",
            remediation=f"Whoever runs the installation can: `manage.py {command}`.",
            verb=v.STOP_GLOBAL,
        )


def _record(
    tx: Tx,
    actor: Actor,
    verb: str,
    stop_id: uuid.UUID,
    result: str,
    reason: str,
    scope: str,
    name: str,
    until: datetime | None,
) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=verb,
        subject_kind="stop",
        subject_id=stop_id,
        result=result,
        reason=reason,
        details={"scope": scope, "name": name, "until": until.isoformat() if until else None},
    )
