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
from runtime.actions.base import LOCK_TIMEOUT_MS, WORK_CHANNEL, check_reason
from runtime.actions.stops import check_operator, is_known
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, NotFound, Stale
from runtime.kernel.ids import uuid7
from runtime.models.limits import BREAKER_STATES, LIMIT_SCOPES
from runtime.store.tx import Tx, tenant_tx

EVERYBODY = uuid.UUID(int=0)
MOST = 1_000_000
_BOUNDS = ("most", "calls", "per_s")
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
    expected_version: int | None = None,
) -> dict[str, Any]:
    """Set or change a limit: ``most`` calls at once, ``calls`` started in each ``per_s`` seconds, or both.

    ``scope`` is tool (``name``, or ``name@version``), workflow, tenant, or global for the whole installation.
    ``expected_version`` is the one that was shown, 0 where none stood; None compares nothing. Returns {limit_id, scope,
    name, most, calls, per_s, reason, set_by, set_at, version}, and ``warning`` when nothing of that name is registered
    yet. Raises BadInput, PermissionDenied, Stale with what stands (``current``, null: none). Verb ``limit.set``; a
    global one is the business of the installation's operators.
    """
    authorize(actor, v.LIMIT_SET)
    text = check_reason(reason)
    _check(scope, name, most, calls, per_s)
    if scope == "global":
        check_operator(actor, "limit the whole installation", "limit set global --most N")
    with tenant_tx(actor.tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        owner = EVERYBODY if scope == "global" else tx.tenant_id
        before = _standing(tx, owner, scope, name)
        row = tx.one(
            "put_limit",
            {
                "id": uuid7(), "tenant": owner, "scope": scope, "name": name, "origin": "settings", "most": most,
                "calls": calls, "per_s": per_s, "reason": text, "by": actor.label, "expected": expected_version,
                "stands": before is not None,
            },
        )  # fmt: skip
        if row is None:
            raise _stale_limit(before or _standing(tx, owner, scope, name), expected_version)
        tx.notify(WORK_CHANNEL)
        details = {"scope": scope, "name": name, "most": most, "calls": calls, "per_s": per_s}
        was = {"before": {field: before[field] for field in _BOUNDS}} if before else {}
        _record(tx, actor, v.LIMIT_SET, "limit", row[0], "set", text, {**details, "version": row[2], **was})
        known = is_known(tx, scope, name)
    warning = {} if known else {"warning": f"No {scope} {name!r} is registered: nothing that runs today is limited."}
    told = {**warning, "reason": text, "set_by": actor.label, "set_at": row[1], "version": row[2]}
    return {"limit_id": str(row[0]), **details, **told}


def remove_limit(
    *, actor: Actor, limit_id: uuid.UUID, reason: str = "", expected_version: int | None = None
) -> dict[str, Any]:
    """Take a limit away; what it held back goes on within a second. Returns {limit_id, removed}.

    One of a tool's contract cannot be taken away: a version of the tool without it can be registered. Raises NotFound,
    BadInput, PermissionDenied, Stale when another version stands than ``expected_version``. Verb ``limit.set``.
    """
    authorize(actor, v.LIMIT_SET)
    text = check_reason(reason)
    with tenant_tx(actor.tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        rows = tx.dicts("limit_scope", (limit_id,))
        if not rows:
            raise NotFound("There is no limit of that id in this tenant.")
        found = rows[0]
        if found["origin"] == "contract":
            raise BadInput(
                "This limit is part of a tool's contract.",
                where="limit_id",
                remediation="Register a version of the tool without it, or set a limit of your own beside it.",
            )
        if found["scope"] == "global":
            check_operator(actor, "change a limit of the whole installation", "limit remove ID")
        if found["stands"] and expected_version not in (None, found["version"]):
            raise _stale_limit(found, expected_version)
        if tx.one("remove_limit", (limit_id,)) is not None:
            tx.notify(WORK_CHANNEL)
            details = {name: found[name] for name in ("scope", "name", *_BOUNDS)}
            _record(tx, actor, v.LIMIT_SET, "limit", limit_id, "removed", text, details)
    return {"limit_id": str(limit_id), "removed": True}


def close_breaker(
    *, actor: Actor, breaker_id: uuid.UUID, reason: str, expected_state: str | None = None
) -> dict[str, Any]:
    """Close a breaker by hand: calls of the tool go on at once. Returns {breaker_id, tool, error_class, closed}.

    ``expected_state`` is the one that was shown; its version counts each failure and would be stale at once. Raises
    NotFound, BadInput (no reason), Stale, PermissionDenied. Verb ``limit.set``.
    """
    authorize(actor, v.LIMIT_SET)
    text = check_reason(reason, required=True)
    with tenant_tx(actor.tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        details = _breaker(tx, breaker_id, expected_state)
        if tx.one("close_breaker", (breaker_id,)) is not None:
            tx.notify(WORK_CHANNEL)
            _record(tx, actor, v.LIMIT_SET, "breaker", breaker_id, "closed", text, details)
    return {"breaker_id": str(breaker_id), **details, "closed": True}


def open_breaker(
    *,
    actor: Actor,
    breaker_id: uuid.UUID,
    reason: str,
    seconds: float | None = None,
    expected_state: str | None = None,
) -> dict[str, Any]:
    """Open a breaker by hand: no call of the tool starts for ``seconds``, then one of them is the probe.

    By default it is as long as a breaker stays open that opens by itself; a stop is what holds until it is lifted.
    What was sent goes on to its end, and its success closes nothing. Returns {breaker_id, tool, error_class, opened,
    open_until}. Raises NotFound, BadInput, Stale, PermissionDenied. Verb ``limit.set``.
    """
    authorize(actor, v.LIMIT_SET)
    text = check_reason(reason, required=True)
    if seconds is not None and not 1 <= seconds <= 86_400:
        mend = "For longer, set a stop of the tool."
        raise BadInput("A breaker is opened for 1 to 86400 seconds.", where="/seconds", remediation=mend)
    with tenant_tx(actor.tenant_id, lock_timeout_ms=LOCK_TIMEOUT_MS) as tx:
        details = _breaker(tx, breaker_id, expected_state)
        row = tx.one("open_breaker", (conf().breaker_seconds if seconds is None else seconds, breaker_id))
        assert row is not None
        until = {"open_until": row[0].isoformat()}
        _record(tx, actor, v.LIMIT_SET, "breaker", breaker_id, "opened", text, {**details, **until})
    return {"breaker_id": str(breaker_id), **details, "opened": True, "open_until": row[0]}


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


def _standing(tx: Tx, owner: uuid.UUID | None, scope: str, name: str) -> dict[str, Any] | None:
    rows = tx.dicts("standing_limit", (owner, scope, name))
    return rows[0] if rows else None


def _stale_limit(found: dict[str, Any] | None, shown: int | None) -> Stale:
    """Return the refusal, with what stands now, who set it and why."""
    was = f"you were shown version {shown}." if shown else "you were shown none."
    if found is None:
        return Stale(f"The limit was taken away; {was}", current=None, current_version=0)
    current = {name: found[name] for name in (*_BOUNDS, "reason", "set_by", "set_at", "version")}
    current["set_at"] = found["set_at"].isoformat()
    text = f"{found['set_by']} set this limit in version {found['version']}; {was}"
    return Stale(text, current=current, current_version=found["version"])


def _breaker(tx: Tx, breaker_id: uuid.UUID, expected: str | None) -> dict[str, Any]:
    """Lock a breaker and return its {tool, error_class}. Raises NotFound, BadInput, and Stale for another state."""
    if expected is not None and expected not in BREAKER_STATES:
        mend = f"Use one of: {', '.join(BREAKER_STATES)}."
        raise BadInput("There is no such state.", where="/expected_state", remediation=mend)
    rows = tx.dicts("lock_breaker", (breaker_id,))
    if not rows:
        raise NotFound("There is no breaker of that id in this tenant.")
    now = rows[0]
    if expected not in (None, now["state"]):
        until = now["open_until"].isoformat() if now["open_until"] else None
        current = {"state": now["state"], "failures": now["failures"], "open_until": until}
        raise Stale(f"The breaker is {now['state']}; you were shown {expected}.", current=current)
    return {"tool": now["tool"], "error_class": now["error_class"]}


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
