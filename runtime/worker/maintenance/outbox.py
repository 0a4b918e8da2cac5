"""What leaves the system: messages written with the change they tell of, composed and sent later (B5.3, C2.4, C6.3).

Sent at least once: a message is claimed for a while in a short transaction, composed, sent outside of any, and marked
by whoever still holds the claim. Its failure fails nothing else: it is tried again, less and less often, within a
budget of attempts and time, and what is slow or silent holds up its own destination alone (``relay``). What cannot be
made or sent at all goes to quarantine with its reason (C2.6).
"""

from __future__ import annotations

import uuid
from datetime import datetime
from smtplib import SMTPException
from typing import Any

import orjson
import structlog
from django.core.mail import EmailMessage

from runtime.kernel import seams
from runtime.kernel.conf import conf
from runtime.kernel.errors import Unavailable
from runtime.kernel.ids import uuid7
from runtime.kernel.messages import Mail, Webhook, thread_headers
from runtime.kernel.unseen import marked
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.relay import Relay, Sent
from runtime.worker.maintenance.webhooks import WebhookRefused, post

log = structlog.get_logger(__name__)

_BATCH = 200
_CLAIM_SECONDS = 120
# The budget of one message. A message that cannot even be made is no matter of patience.
MAX_ATTEMPTS, MAX_AGE_SECONDS = 10, 24 * 3600.0
POISON_ATTEMPTS = 3
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 5.0, 3600.0


def new_relay() -> Relay:
    """Return a relay for what is due; whoever starts it closes it."""
    return Relay(_deliver_one, page=_BATCH, max_age_s=MAX_AGE_SECONDS)


def deliver() -> dict[str, int]:
    """Send what is due and wait for it; returns counts of sent, dropped (no longer worth sending), failed, given_up."""
    relay = new_relay()
    try:
        relay.run_once()
        return relay.wait()
    finally:
        relay.close()


def _deliver_one(tenant_id: uuid.UUID, message_id: uuid.UUID, unsent: str, their_wait: float) -> Sent:
    """Claim a message, make it, send it and mark it, unless it is given up ``unsent`` for that reason."""
    with tenant_tx(tenant_id) as tx:
        row = tx.one("message_claim", (_CLAIM_SECONDS, message_id, MAX_AGE_SECONDS))
    if row is None:
        return Sent()
    topic, payload, attempts, event_id, old = row
    parts, problem, poison, away = [], unsent, False, False
    if not unsent:
        try:
            parts = _compose(tenant_id, topic, orjson.loads(payload) if isinstance(payload, str | bytes) else payload)
        except Unavailable:
            raise  # the claim runs out by itself
        except Exception as trouble:  # one message that cannot be made must not stop the others
            log.exception("a message cannot be made", message=str(message_id), topic=topic)
            problem, poison = f"cannot be made: {type(trouble).__name__}: {trouble}"[:500], True
    told: list[str] = []
    for part in parts:
        wrong, its_away = _send(part, _name_of(part, event_id))
        problem, away = wrong or problem, away or its_away
        if not wrong and isinstance(part, Mail):
            told.append(part.language)
    given_up = bool(problem) and (attempts >= (POISON_ATTEMPTS if poison else MAX_ATTEMPTS) or old)
    wait = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** (attempts - 1))
    claim = (topic, message_id, attempts)
    now = _mark(tenant_id, claim, problem, given_up, max(wait, their_wait) if away else wait, told)
    outcome = "given_up" if given_up else "failed" if problem else "sent" if parts else "dropped"
    return Sent(outcome, problem if away else "", now)


def _mark(
    tenant_id: uuid.UUID, claim: tuple[str, uuid.UUID, int], problem: str, given_up: bool, wait: float, told: list[str]
) -> datetime:
    """Write down what became of a claimed message (topic, id, attempts), if the claim is still ours; returns when.

    Of one that failed in part ``told`` are the languages whose mail went: nobody gets it again because another one's
    did not go.
    """
    topic, message_id, attempts = claim
    with tenant_tx(tenant_id) as tx:
        if problem and told:
            tx.send("message_told", (orjson.dumps(told).decode(), message_id, attempts))
        if given_up:
            tx.send("quarantine_insert", (uuid7(), problem, message_id, attempts))
            seams.need_cases(tx, [_poison(topic, problem, attempts)])
        if not problem or given_up:
            tx.send("message_done", (problem or None, message_id, attempts))
        else:
            tx.send("message_failed", (problem, wait, message_id, attempts))
        now = tx.now()
    if given_up:
        log.error("a message goes to quarantine", message=str(message_id), topic=topic, problem=problem)
    return now


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
    """Make what is sent and did not go yet.

    Raises LookupError when nobody makes such messages, and whatever the composer raises.
    """
    try:
        composer = seams.composer_of(topic)
    except KeyError:
        raise LookupError("nobody makes messages of this topic") from None
    with tenant_tx(tenant_id) as tx:
        made = composer(tx, payload)
    parts = [] if made is None else made if isinstance(made, list) else [made]
    told = payload.get("told", ())
    return [one for one in parts if not (told and isinstance(one, Mail) and one.language in told)]


def _name_of(part: Mail | Webhook, event_id: uuid.UUID) -> str:
    """Return a part's own name, the same each time it is tried, whichever others of its message went."""
    return f"{event_id}.{part.language}" if isinstance(part, Mail) and part.language else str(event_id)


def _send(part: Mail | Webhook, name: str) -> tuple[str, bool]:
    """Send one; return what went wrong (or an empty string), and whether its webhook takes no other message either.

    ``name`` is the part's own, the same each time it is tried.
    """
    try:
        if isinstance(part, Webhook):
            post(part)
            return "", False
        several = len(part.to) > 1
        subject, text = marked(part.subject), marked(part.text)
        to, bcc = ([], part.to) if several else (part.to, [])
        headers = thread_headers(name, part.thread, conf().public_url)
        EmailMessage(subject, text, to=to, bcc=bcc, headers=headers).send()
    except (OSError, SMTPException, WebhookRefused, ValueError) as problem:
        return f"{type(problem).__name__}: {problem}"[:500], isinstance(problem, WebhookRefused) and problem.away
    except Exception as problem:  # whatever a backend raises counts as a try, so that its message is given up one day
        log.exception("a message cannot be sent")
        return f"{type(problem).__name__}: {problem}"[:500], False
    return "", False
