"""Limits, breakers and the tenant's policy, as people set them (C2.7, C3.2, B4.2).

A limit takes effect with the next claim. Lowering one stops nothing that runs: what is under way goes on to its end.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.base import WORK_CHANNEL, check_reason
from runtime.actions.stops import check_operator
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound
from runtime.kernel.ids import uuid7
from runtime.models.limits import LIMIT_SCOPES
from runtime.store.tx import Tx, tenant_tx

EVERYBODY = uuid.UUID(int=0)
MOST = 1_000_000
_TOOL = re.compile(r"[a-z][a-z0-9_.-]{0,119}(@[1-9][0-9]{0,8})?")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,99}")


def set_limit(
    *,
    actor: Actor,
    scope: str,
    name: str = "",
    most: int | None = None,
    calls: int | None = None,
    per_s: float | None = None,
    reason: str = "",
) -> dict[str, Any]:
    """Set or change a limit: ``most`` calls at once, ``calls`` started in each ``per_s`` seconds, or both.

    ``scope`` is tool (``name``, or ``name@version``), workflow, tenant, or global for the whole installation. Returns
    {limit_id, scope, name, most, calls, per_s, reason, set_by, set_at}. Raises BadInput, PermissionDenied. Verb
    ``limit.set``; a global one is the business of the installation's operators.
    """
    authorize(actor, v.LIMIT_SET)
    text = check_reason(reason)
    _check(scope, name, most, calls, per_s)
    if scope == "global":
        check_operator(actor, "limit the whole installation", "limit set global --most N")
    with tenant_tx(actor.tenant_id) as tx:
        owner = EVERYBODY if scope == "global" else tx.tenant_id
        row = tx.one(
            "put_limit",
            {
                "id": uuid7(), "tenant": owner, "scope": scope, "name": name, "origin": "settings", "most": most,
                "calls": calls, "per_s": per_s, "reason": text, "by": actor.label,
            },
        )  # fmt: skip
        assert row is not None
        tx.notify(WORK_CHANNEL)
        details = {"scope": scope, "name": name, "most": most, "calls": calls, "per_s": per_s}
        _record(tx, actor, v.LIMIT_SET, "limit", row[0], "set", text, details)
    return {"limit_id": str(row[0]), **details, "reason": text, "set_by": actor.label, "set_at": row[1]}


def remove_limit(*, actor: Actor, limit_id: uuid.UUID, reason: str = "") -> dict[str, Any]:
    """Take a limit away; what it held back goes on within a second. Returns {limit_id, removed}.

    One of a tool's contract cannot be taken away: a version of the tool without it can be registered. Raises NotFound,
    BadInput, PermissionDenied. Verb ``limit.set``.
    """
    authorize(actor, v.LIMIT_SET)
    text = check_reason(reason)
    with tenant_tx(actor.tenant_id) as tx:
        found = tx.one("limit_scope", (limit_id,))
        if found is None:
            raise NotFound("There is no limit of that id in this tenant.")
        scope, origin, _there = found
        if origin == "contract":
            raise BadInput(
                "This limit is part of a tool's contract.",
                where="limit_id",
                remediation="Register a version of the tool without it, or set a limit of your own beside it.",
            )
        if scope == "global":
            check_operator(actor, "change a limit of the whole installation", "limit remove ID")
        row = tx.one("remove_limit", (limit_id,))
        if row is not None:
            tx.notify(WORK_CHANNEL)
            details = {"scope": row[0], "name": row[1]}
            _record(tx, actor, v.LIMIT_SET, "limit", limit_id, "removed", text, details)
    return {"limit_id": str(limit_id), "removed": True}


def close_breaker(*, actor: Actor, breaker_id: uuid.UUID, reason: str) -> dict[str, Any]:
    """Close a breaker by hand: calls of the tool go on at once. Returns {breaker_id, tool, error_class, closed}.

    Raises NotFound, BadInput (no reason), PermissionDenied. Verb ``limit.set``.
    """
    authorize(actor, v.LIMIT_SET)
    text = check_reason(reason, required=True)
    with tenant_tx(actor.tenant_id) as tx:
        found = tx.one("breaker_tool", (breaker_id,))
        if found is None:
            raise NotFound("There is no breaker of that id in this tenant.")
        details = {"tool": found[0], "error_class": found[1]}
        if tx.one("close_breaker", (breaker_id,)) is not None:
            tx.notify(WORK_CHANNEL)
            _record(tx, actor, v.LIMIT_SET, "breaker", breaker_id, "closed", text, details)
    return {"breaker_id": str(breaker_id), **details, "closed": True}


def set_policy(*, actor: Actor, data_regions: list[str] | None, scopes: list[str] | None) -> dict[str, Any]:
    """Say which data regions and scopes the tenant's tools may have; None bounds nothing.

    A tool without a region is not bound by regions. Returns {data_regions, scopes}. Raises BadInput, PermissionDenied.
    Verb ``limit.set``.
    """
    authorize(actor, v.LIMIT_SET)
    for where, value in (("data_regions", data_regions), ("scopes", scopes)):
        if value is not None and not all(0 < len(one) <= 100 and one.isprintable() for one in value):
            raise BadInput(f"{where} holds names of 1 to 100 printable characters.", where=f"/{where}")
        if value is not None and len(value) > 200:
            raise BadInput(f"{where} holds at most 200 names.", where=f"/{where}", remediation="Shorten the list.")
    details = {"data_regions": data_regions, "scopes": scopes}
    with tenant_tx(actor.tenant_id) as tx:
        texts = [None if value is None else orjson.dumps(sorted(set(value))).decode() for value in details.values()]
        tx.send("put_policy", (uuid7(), tx.tenant_id, *texts, actor.label))
        _record(tx, actor, v.LIMIT_SET, "policy", tx.tenant_id, "set", "", details)
    return details


def _check(scope: str, name: str, most: int | None, calls: int | None, per_s: float | None) -> None:
    if scope not in LIMIT_SCOPES:
        mend = f"Use one of: {', '.join(LIMIT_SCOPES)}."
        raise BadInput("There is no such scope.", where="/scope", remediation=mend)
    if scope in ("tenant", "global"):
        if name:
            raise BadInput(f"A limit of the scope {scope} has no name.", where="/name", remediation="Leave it out.")
    elif not (_TOOL if scope == "tool" else _NAME).fullmatch(name):
        mend = "Write `shop.refund` or `shop.refund@1`." if scope == "tool" else "Name a workflow."
        raise BadInput(f"A limit of the scope {scope} names one.", where="/name", remediation=mend)
    if most is None and calls is None:
        mend = "Give `most`, or `calls` and `per_s`."
        raise BadInput("A limit bounds something.", where="/most", remediation=mend)
    if (calls is None) != (per_s is None):
        raise BadInput("`calls` and `per_s` go together.", where="/per_s", remediation="Give both or none.")
    for where, value in (("most", most), ("calls", calls)):
        if value is not None and not 1 <= value <= MOST:
            mend = "To let nothing start at all, set a stop." if value < 1 else "Leave it out."
            raise BadInput(f"`{where}` lies between 1 and {MOST}.", where=f"/{where}", remediation=mend)
    if per_s is not None and not 0.001 <= per_s <= 86_400:
        raise BadInput("`per_s` lies between 0.001 and 86400 seconds.", where="/per_s")


def _record(
    tx: Tx, actor: Actor, verb: str, kind: str, subject: object, result: str, reason: str, details: dict[str, Any]
) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=verb,
        subject_kind=kind,
        subject_id=str(subject),
        result=result,
        reason=reason,
        details=details,
    )
