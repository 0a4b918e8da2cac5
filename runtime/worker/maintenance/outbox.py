"""What leaves the system: messages written with the change they tell of, composed and sent later (B5.3, C2.4, C6.3).

Sent at least once: a message is claimed for a while in a short transaction, composed, sent outside of any, and marked
by whoever still holds the claim. Its failure fails nothing else: it is tried again, less and less often, within a
budget of attempts and time. What cannot be made or sent at all goes to quarantine with its reason (C2.6).
"""

from __future__ import annotations

import uuid
from smtplib import SMTPException
from typing import Any

import orjson
import structlog
from django.core.mail import EmailMessage

from runtime.kernel import seams
from runtime.kernel.errors import Unavailable
from runtime.kernel.ids import uuid7
from runtime.kernel.messages import Mail, Webhook
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.each import attempt_due
from runtime.worker.maintenance.webhooks import WebhookRefused, post

log = structlog.get_logger(__name__)

_BATCH = 50
_CLAIM_SECONDS = 120
# The budget of one message. A message that cannot even be made is no matter of patience.
MAX_ATTEMPTS, MAX_AGE_SECONDS = 10, 24 * 3600.0
POISON_ATTEMPTS = 3
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 5.0, 3600.0


def deliver() -> dict[str, int]:
    """Send what is due; returns counts of sent, dropped (no longer worth sending), failed and given_up."""
    counts = {"sent": 0, "dropped": 0, "failed": 0, "given_up": 0}

    def one(tenant_id: uuid.UUID, message_id: uuid.UUID) -> int:
        counts[_deliver_one(tenant_id, message_id)] += 1
        return 1

    attempt_due("outbox", "due_messages", _BATCH, one)
    return {name: count for name, count in counts.items() if count}


def _deliver_one(tenant_id: uuid.UUID, message_id: uuid.UUID) -> str:
    with tenant_tx(tenant_id) as tx:
        row = tx.one("message_claim", (_CLAIM_SECONDS, message_id, MAX_AGE_SECONDS))
    if row is None:
        return "dropped"
    topic, payload, attempts, _schema_version, old = row
    problem, poison, parts = "", False, []
    try:
        parts = _compose(tenant_id, topic, orjson.loads(payload) if isinstance(payload, str | bytes) else payload)
    except Unavailable:
        raise  # the claim runs out by itself
    except Exception as trouble:  # one message that cannot be made must not stop the others
        log.exception("a message cannot be made", message=str(message_id), topic=topic)
        problem, poison = f"cannot be made: {type(trouble).__name__}: {trouble}"[:500], True
    for part in parts:
        problem = _send(part) or problem
    given_up = bool(problem) and (attempts >= (POISON_ATTEMPTS if poison else MAX_ATTEMPTS) or old)
    wait = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** (attempts - 1))
    with tenant_tx(tenant_id) as tx:
        if given_up:
            tx.send("quarantine_insert", (uuid7(), problem, message_id, attempts))
            seams.need_cases(tx, [_poison(topic, problem, attempts)])
        if not problem or given_up:
            tx.send("message_done", (problem or None, message_id, attempts))
        else:
            tx.send("message_failed", (problem, wait, message_id, attempts))
    if given_up:
        log.error("a message goes to quarantine", message=str(message_id), topic=topic, problem=problem)
        return "given_up"
    return "failed" if problem else "sent" if parts else "dropped"


def _poison(topic: str, problem: str, attempts: int) -> seams.CaseNeed:
    """Ask for a person: one case a topic, however many of its messages are kept in quarantine."""
    return seams.CaseNeed(
        "poison_message",
        f"A message of {topic} is in quarantine: {problem}",
        facts={"topic": topic, "attempts": attempts, "error": {"class": "poison", "message": problem}},
        source="outbox",
        fingerprint=f"poison_message:{topic}",
    )


def _compose(tenant_id: uuid.UUID, topic: str, payload: dict[str, Any]) -> list[Mail | Webhook]:
    """Make what is sent. Raises LookupError when nobody makes such messages, and whatever the composer raises."""
    try:
        composer = seams.composer_of(topic)
    except KeyError:
        raise LookupError("nobody makes messages of this topic") from None
    with tenant_tx(tenant_id) as tx:
        made = composer(tx, payload)
    return [] if made is None else made if isinstance(made, list) else [made]


def _send(part: Mail | Webhook) -> str:
    """Send one; return what went wrong, or an empty string."""
    try:
        if isinstance(part, Webhook):
            post(part)
            return ""
        several = len(part.to) > 1
        EmailMessage(part.subject, part.text, to=[] if several else part.to, bcc=part.to if several else []).send()
    except (OSError, SMTPException, WebhookRefused, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"[:500]
    except Exception as problem:  # whatever a backend raises counts as a try, so that its message is given up one day
        log.exception("a message cannot be sent")
        return f"{type(problem).__name__}: {problem}"[:500]
    return ""
