"""Where events of requests are posted: set, given a new secret, taken away; on hosts of the operator's list (C7.4)."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

import orjson

from approvals.addresses import shown_url
from approvals.ends import forget
from approvals.law import EVENTS, HOOK_FORMATS, RUN_EVENTS
from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.notices import check_url, secret_of
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, Conflict, NotFound, Stale
from runtime.kernel.ids import uuid7
from runtime.queries.base import parsed
from runtime.store.tx import Tx, tenant_tx

# How long the secret before signs too, so that a receiver can take the new one over meanwhile.
OVERLAP_SECONDS = 86_400.0
MOST_OVERLAP = 30 * 86_400.0
# How many a tenant has: each gets a message of its own for every event, and the page shows them all.
MOST_HOOKS = 20
# How many earlier secrets sign at once, and how long the same question is told the same answer again.
MOST_EARLIER = 4
REPEAT_SECONDS = 600.0


def add_hook(*, actor: Actor, url: str, format: str = "standard", events: list[str] | None = None) -> dict[str, Any]:
    """Post events of the tenant's requests to ``url``; ``events`` narrows which (``approvals.law.EVENTS``).

    Ends of runs are posted where ``events`` names them (``approvals.law.RUN_EVENTS``), from at most a second later on.
    ``standard`` is signed by Standard Webhooks; ``chat`` posts {"text"} to the incoming hook of a chat. Returns
    {hook_id, url, format, events, secret_version, secret}: this is the only time that the secret is told. Raises
    BadInput, Conflict when it is there already or there are MOST_HOOKS, PermissionDenied. Verb ``notice.manage``.
    """
    authorize(actor, v.NOTICE_MANAGE)
    if format not in HOOK_FORMATS:
        mend = f"Use one of: {', '.join(HOOK_FORMATS)}."
        raise BadInput("There is no such format.", where="/format", remediation=mend)
    _check_events(events)
    check_url(url, "/url")
    hook_id, chosen = uuid7(), None if events is None else sorted(set(events))
    with tenant_tx(actor.tenant_id) as tx:
        tx.send("hook_serial", (tx.tenant_id,))
        if len(tx.rows("hooks")) >= MOST_HOOKS:
            raise Conflict(f"A tenant has at most {MOST_HOOKS} webhooks.", remediation="Remove one of them first.")
        narrowed = None if chosen is None else orjson.dumps(chosen).decode()
        row = tx.one("hook_insert", (hook_id, tx.tenant_id, url, format, narrowed, actor.label))
        if row is None:
            raise Conflict("Events are posted there already.", remediation="Remove that one first.")
        _record(tx, actor, hook_id, "added", {"url": shown_url(url, format), "format": format, "events": chosen})
    forget(actor.tenant_id)
    answer = {"hook_id": str(hook_id), "url": shown_url(url, format), "format": format, "events": chosen}
    return {**answer, "secret_version": 1, "secret": secret_of(hook_id)}


def rotate_hook(
    *, actor: Actor, hook_id: uuid.UUID, expected_version: int, overlap_s: float = OVERLAP_SECONDS
) -> dict[str, Any]:
    """Give a hook a new secret; for ``overlap_s`` seconds the one before signs as well (0: none but the new one signs).

    ``expected_version`` is the ``secret_version`` that was shown. What is sent twice makes one secret: whoever asks the
    same again within ten minutes is told the same. Returns {hook_id, secret_version, secret, old_until (None: it signs
    no more)}. Raises BadInput, NotFound, PermissionDenied, Stale when another secret stands, Conflict when too many
    earlier ones sign. Verb ``notice.manage``.
    """
    authorize(actor, v.NOTICE_MANAGE)
    if not 0 <= overlap_s <= MOST_OVERLAP:
        raise BadInput("Two secrets sign for at most 30 days.", where="/overlap_s", remediation="Choose fewer seconds.")
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("hook_lock", (hook_id,))
        if row is None:
            raise NotFound("There is no such hook in this tenant.")
        version, now = row[0], tx.now()
        rotation = parsed(row[2])
        asked = {"by": str(actor.user_id), "overlap_s": float(overlap_s)}
        if version != expected_version and not (version == expected_version + 1 and _repeats(rotation, asked, now)):
            said = f"The hook has its secret {version}; you were shown {expected_version}."
            raise Stale(said, current_version=version)
        if version == expected_version:
            until = now + timedelta(seconds=overlap_s)
            rotation = {**asked, "at": now.isoformat(), "until": until.isoformat()}
            kept = _signing(parsed(row[1]), version, until, now)
            tx.send("hook_rotate", (orjson.dumps(kept).decode(), orjson.dumps(rotation).decode(), hook_id))
            version += 1
            _record(tx, actor, hook_id, "new secret", {"version": version, "old_until": until.isoformat()})
    assert rotation is not None
    answer = {"hook_id": str(hook_id), "secret_version": version, "secret": secret_of(hook_id, version)}
    return {**answer, "old_until": datetime.fromisoformat(rotation["until"]) if overlap_s else None}


def _repeats(rotation: dict[str, Any] | None, asked: dict[str, Any], now: datetime) -> bool:
    """Say whether the newest secret was made by this very question: a second click, or an answer that was lost."""
    if rotation is None or any(rotation[name] != value for name, value in asked.items()):
        return False
    return (now - datetime.fromisoformat(rotation["at"])).total_seconds() < REPEAT_SECONDS


def _signing(before: list[dict[str, Any]], version: int, until: datetime, now: datetime) -> list[dict[str, Any]]:
    """Return the earlier secrets that sign from now on, each as long as was said when it was replaced."""
    if until <= now:
        return []
    kept = [one for one in before if datetime.fromisoformat(one["until"]) > now]
    if len(kept) >= MOST_EARLIER:
        raise Conflict(
            "Too many earlier secrets sign already.",
            remediation="Wait until the time of one is over, or let none but the new one sign (overlap_s 0).",
        )
    return [*kept, {"version": version, "until": until.isoformat()}]


def remove_hook(*, actor: Actor, hook_id: uuid.UUID) -> dict[str, Any]:
    """Post nothing there any more, what waits to be sent included. Raises NotFound, PermissionDenied.

    Verb ``notice.manage``.
    """
    authorize(actor, v.NOTICE_MANAGE)
    with tenant_tx(actor.tenant_id) as tx:
        if tx.one("hook_remove", (hook_id,)) is None:
            raise NotFound("There is no such hook in this tenant.")
        _record(tx, actor, hook_id, "removed", None)
    return {"hook_id": str(hook_id), "removed": True}


def _check_events(events: list[str] | None) -> None:
    for index, event in enumerate(events or ()):
        if event not in (*EVENTS, *RUN_EVENTS):
            mend = f"Use some of: {', '.join((*EVENTS, *RUN_EVENTS))}."
            raise BadInput("There is no such event.", where=f"/events/{index}", remediation=mend)
    if events is not None and not events:
        raise BadInput(
            "A hook with no event gets nothing.", where="/events", remediation="Leave it out for all of approvals."
        )


def _record(tx: Tx, actor: Actor, hook_id: uuid.UUID, result: str, details: dict[str, Any] | None) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=v.NOTICE_MANAGE,
        subject_kind="approval_hook",
        subject_id=hook_id,
        result=result,
        details=details,
    )
