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
from runtime.access.authorize import authorize, operates
from runtime.actions.base import CONTROL_CHANNEL, WORK_CHANNEL, check_reason
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound, PermissionDenied, StopStands
from runtime.kernel.ids import uuid7
from runtime.models.watch import STOP_SCOPES
from runtime.store.tx import Tx, tenant_tx

# Workers drop what they remember of stops when they hear this on the control channel.
STOPS_CHANGED = "stops"
_MOST = 500
# Two ends so close are the same order: each was counted from the moment of its click.
_SAME_SECONDS = 60.0
_TOOL = re.compile(r"[a-z][a-z0-9_.-]{0,119}(@[1-9][0-9]{0,8})?")


def set_stop(
    *,
    actor: Actor,
    scope: str,
    name: str = "",
    reason: str,
    until: datetime | None = None,
    replaces: uuid.UUID | None = None,
) -> dict[str, Any]:
    """Stop a tool (``name``, or ``name@version``), a workflow, the whole tenant, or with ``global`` everybody.

    Returns {stop_id, scope, name, reason, set_by, set_at, until, replayed}, and ``warning`` when nothing of that name
    is registered yet: it is stopped too, but in a hurry a name is soon misspelt. One stop of a subject stands at a
    time: the same order again is answered with it (``replayed``), another one raises StopStands, which names it.
    ``replaces`` is the id of the standing one that this takes the place of, without a moment between. Raises
    BadInput, PermissionDenied. Verb ``stop.set``, to replace one ``stop.lift`` too; a global stop needs
    ``stop.global``, or an admin's hand in the operator's tenant.
    """
    authorize(actor, v.STOP_SET)
    if replaces is not None:
        authorize(actor, v.STOP_LIFT)
    text = check_reason(reason, required=True)
    _check_subject(scope, name)
    if scope == "global":
        check_operator(actor, "stop the whole installation", "stop set global --reason …")
    with tenant_tx(actor.tenant_id) as tx:
        _check_until(tx, until)
        tx.send("lock_stop_subject", (f"{'' if scope == 'global' else tx.tenant_id}:{scope}:{name}",))
        there = [one for one in _standing(tx) if (one["scope"], one["name"]) == (scope, name)]
        same = next((one for one in there if _is_same(one, actor, text, until)), None)
        if same is None:
            _refuse_standing(scope, name, there, replaces)
            made = _insert(tx, actor, scope, name, text, until)
            for one in there:
                _lift(tx, actor, one, text)
        else:
            made = {"stop_id": str(same["id"]), "set_at": same["set_at"], "until": same["until"], "replayed": True}
        known = is_known(tx, scope, name)
    warning = {} if known else {"warning": f"No {scope} {name!r} is registered: nothing that runs today is stopped."}
    return {**warning, "scope": scope, "name": name, "reason": text, "set_by": actor.label, **made}


def _insert(tx: Tx, actor: Actor, scope: str, name: str, text: str, until: datetime | None) -> dict[str, Any]:
    stop_id = uuid7()
    if scope == "global":
        row = tx.one("insert_global_stop", (stop_id, tx.tenant_id, text, actor.label, until))
    else:
        row = tx.one("insert_stop", (stop_id, tx.tenant_id, scope, name, text, actor.label, until))
    assert row is not None
    tx.notify(CONTROL_CHANNEL, STOPS_CHANGED)
    _record(tx, actor, v.STOP_SET, stop_id, "stopped", text, scope, name, until)
    return {"stop_id": str(stop_id), "set_at": row[0], "until": until, "replayed": False}


def _standing(tx: Tx) -> list[dict[str, Any]]:
    return tx.dicts("read_stops", {"id": None, "standing": True, "past": False, "before": None, "limit": _MOST})


def _is_same(one: dict[str, Any], actor: Actor, text: str, until: datetime | None) -> bool:
    """Say whether a standing stop is what is ordered: a second click, or an answer that was lost."""
    if not one["ours"] or (one["set_by"], one["reason"]) != (actor.label, text):
        return False
    if until is None or one["until"] is None:
        return until is one["until"]
    # An end that was counted from now differs by what lies between the clicks.
    return bool(abs((until - one["until"]).total_seconds()) <= _SAME_SECONDS)


def _refuse_standing(scope: str, name: str, there: list[dict[str, Any]], replaces: uuid.UUID | None) -> None:
    """Raise StopStands where a stop of the subject stands that the new one does not say it replaces."""
    if not there or (len(there) == 1 and there[0]["id"] == replaces):
        return
    first = next((one for one in there if one["id"] != replaces), there[0])
    by = f", set by {first['set_by']}" if first["ours"] else ""
    end = f"until {first['until']:%Y-%m-%d %H:%M} UTC" if first["until"] else "until it is lifted"
    raise StopStands(
        f"A stop of {_spoken(scope, name)} stands already{by}, {end}.",
        standing=_shown(first),
    )


def _spoken(scope: str, name: str) -> str:
    return f"the {scope} {name}" if name else {"tenant": "the whole tenant"}.get(scope, "the whole installation")


def _shown(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "stop_id": str(one["id"]),
        "scope": one["scope"],
        "name": one["name"],
        "until": one["until"].isoformat() if one["until"] else None,
        "address": f"/api/v1/stops/{one['id']}/",
    }


def _covers(one: dict[str, Any], scope: str, name: str) -> bool:
    """Say whether a standing stop holds back something of a subject: a broader one, or one version of the same tool."""
    if "global" in (one["scope"], scope) or "tenant" in (one["scope"], scope):
        return True
    if one["scope"] != scope:
        return False
    (bare, _, version), (other, _, wanted) = one["name"].partition("@"), name.partition("@")
    return one["name"] == name or (scope == "tool" and bare == other and not (version and wanted))


def lift_stop(*, actor: Actor, stop_id: uuid.UUID, reason: str = "") -> dict[str, Any]:
    """Lift a stop and return {stop_id, lifted, scope, name, still}; one that was lifted before stays so.

    What it held back goes on within a second, unless another stop holds it too: ``still`` lists those that stand and
    hold back anything of the same subject, each {stop_id, scope, name, until, address}. Raises NotFound,
    PermissionDenied. Verb ``stop.lift``.
    """
    authorize(actor, v.STOP_LIFT)
    text = check_reason(reason)
    with tenant_tx(actor.tenant_id) as tx:
        found = tx.dicts("read_stops", {"id": stop_id, "standing": False, "past": False, "before": None, "limit": 1})
        if not found:
            raise NotFound("There is no stop of that id in this tenant.")
        stop = found[0]
        if stop["scope"] == "global":
            check_operator(actor, "stop the whole installation", "stop set global --reason …")
        scope, name = stop["scope"], stop["name"]
        still = [_shown(one) for one in _standing(tx) if one["id"] != stop_id and _covers(one, scope, name)]
        _lift(tx, actor, stop, text)
    return {"stop_id": str(stop_id), "lifted": True, "scope": scope, "name": name, "still": still}


def _lift(tx: Tx, actor: Actor, stop: dict[str, Any], text: str) -> None:
    query = "lift_global_stop" if stop["scope"] == "global" else "lift_stop"
    if tx.one(query, (actor.label, text, stop["id"])) is not None:
        tx.notify(CONTROL_CHANNEL, STOPS_CHANGED)
        tx.notify(WORK_CHANNEL)
        _record(tx, actor, v.STOP_LIFT, stop["id"], "lifted", text, stop["scope"], stop["name"], None)


def is_known(tx: Tx, scope: str, name: str) -> bool:
    """Return whether what a stop or a limit names is registered in the transaction's tenant."""
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
    """Only the installation's operators act on everybody (:func:`operates`)."""
    if not operates(actor):
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
