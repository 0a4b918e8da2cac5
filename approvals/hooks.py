"""Events of requests as webhooks (Standard Webhooks) and as lines for a chat. Their links open a page; none decides."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import orjson
from django.utils.translation import gettext as _

from approvals.law import RISKS
from approvals.requests import request_of_message
from runtime.actions.notices import secret_of
from runtime.kernel.messages import Webhook
from runtime.kernel.unseen import marked
from runtime.store.links import page_link
from runtime.store.tx import Tx

# News about a request that waits: nobody in a chat hears of it once it is closed.
_WHILE_PENDING = ("asked", "warned", "reminded", "overdue", "escalated", "delegated")
_TIMES = ("deadline", "decided_at", "start_by")


def told(tx: Tx, payload: dict[str, Any]) -> Webhook | None:
    """Compose one event for one hook; None when the hook is gone, or a chat would hear of what is over.

    What people decide by (payload, arguments, comments) is not in it: a channel is read by more eyes than theirs.
    """
    hook_id = uuid.UUID(payload["hook_id"])
    hook = tx.one("hook_for_message", (hook_id,))
    rows = tx.dicts("approval_read", (request_of_message(payload),))
    if hook is None or not rows:
        return None
    row, link = rows[0], page_link(tx, f"/inbox/{rows[0]['id']}/")
    if hook[1] == "chat":
        if payload["event"] in _WHILE_PENDING and row["state"] != "pending":
            return None
        body = orjson.dumps({"text": _line(payload, row, link)})
    else:
        body = _standard(payload, row, link)
    return signed(hook_id, hook, f"approval_{uuid.UUID(payload['event_id']).hex}", body)


def signed(hook_id: uuid.UUID, hook: tuple[Any, ...], message_id: str, body: bytes) -> Webhook:
    """Return a message for a row of ``hook_for_message``, with every secret that signs now."""
    url, _form, version, old = hook
    secrets = tuple(secret_of(hook_id, one) for one in old)
    return Webhook(url=url, secret=secret_of(hook_id, version), message_id=message_id, body=body, old_secrets=secrets)


def destination(payload: dict[str, Any]) -> str:
    """Name the hook that an event is for."""
    return f"hook:{payload['hook_id']}"


def _standard(payload: dict[str, Any], row: dict[str, Any], link: str) -> bytes:
    """Return the body: what never changes of the request, and how it stood at the moment of the event."""
    then = dict(payload["then"])
    for name in _TIMES:
        then[name] = None if then[name] is None else datetime.fromisoformat(then[name])
    data = {
        "approval_id": row["id"],
        "kind": row["kind"],
        "subject_kind": row["subject_kind"],
        "title": row["title"],
        "workflow": row["workflow_name"],
        "node": row["node"],
        "run_id": row["run_id"],
        "task_id": row["task_id"],
        "step_id": row["step_id"],
        "version": row["version"],
        "payload_hash": bytes(row["payload_sha256"]).hex(),
        "action_hash": bytes(row["action_sha256"]).hex(),
        "risk": RISKS[row["risk"]],
        "quorum": row["quorum"],
        "requested_by": row["requested_by"],
        "created_at": row["created_at"],
        **then,
        "link": link,
    }
    value = {"type": f"approval.{payload['event']}", "timestamp": datetime.fromisoformat(payload["at"]), "data": data}
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)


def _line(payload: dict[str, Any], row: dict[str, Any], link: str) -> str:
    """Return the text for a chat: what happened to which request, who decides until when, and the link."""
    title = harmless(row["title"])[:200]
    facts = [_word(payload["event"]) % {"title": title}]
    if row["workflow_name"]:
        facts.append(_("Workflow: %(workflow)s, step: %(node)s") % {
            "workflow": harmless(row["workflow_name"]), "node": harmless(row["node"])
        })  # fmt: skip
    if payload["event"] in _WHILE_PENDING and row["deadline"] is not None:
        facts.append(_("Decide before: %(time)s UTC") % {"time": row["deadline"].strftime("%Y-%m-%d %H:%M")})
    elif payload["then"]["decided_by"]:
        facts.append(_("By: %(who)s") % {"who": harmless(payload["then"]["decided_by"].removeprefix("user:"))})
    return "\n".join([*facts, link])


def _word(event: str) -> str:
    words = {
        "warned": _("Half of the time is over: %(title)s"),
        "reminded": _("Little time left to decide: %(title)s"),
        "overdue": _("Overdue: %(title)s"),
        "escalated": _("Escalated: %(title)s"),
        "delegated": _("Handed over: %(title)s"),
        "approved": _("Approved: %(title)s"),
        "rejected": _("Rejected: %(title)s"),
        "cancelled": _("No longer wanted: %(title)s"),
        "superseded": _("Replaced by another proposal: %(title)s"),
        "consumed": _("Approved and sent: %(title)s"),
        "lapsed": _("Not started in time: %(title)s"),
        "voided": _("Void: %(title)s"),
        "revoked": _("Taken back: %(title)s"),
    }
    return words.get(event, _("Approval needed: %(title)s"))


def harmless(text: str) -> str:
    """Return a text that a chat shows as it is: it mentions nobody, and hides no address and no sign."""
    words = marked(" ".join(text.split()))
    for sign, shown in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("@", "@\u200b"), ("](", "]\u200b(")):
        words = words.replace(sign, shown)
    return words
