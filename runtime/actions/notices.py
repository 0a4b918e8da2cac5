"""Where alerts are sent: mail addresses and signed webhooks. Webhooks go to the operator's allow-list only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from typing import Any
from urllib.parse import urlsplit

import orjson
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, Conflict, NotFound
from runtime.kernel.ids import uuid7
from runtime.models.watch import ALERT_RULES
from runtime.store.tx import Tx, tenant_tx

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def add_target(*, actor: Actor, kind: str, address: str, rules: list[str] | None = None) -> dict[str, Any]:
    """Send the tenant's alerts to a mail address or a webhook too; ``rules`` narrow which.

    Returns {target_id, kind, address, rules, secret}; the receiver of a webhook verifies with ``secret``. Raises
    BadInput, Conflict when it is there already, PermissionDenied. Verb ``notice.manage``.
    """
    authorize(actor, v.NOTICE_MANAGE)
    _check(kind, address, rules)
    target_id = uuid7()
    with tenant_tx(actor.tenant_id) as tx:
        narrowed = None if rules is None else orjson.dumps(sorted(set(rules))).decode()
        row = tx.one("insert_notice_target", (target_id, tx.tenant_id, kind, address, narrowed, actor.label))
        if row is None:
            raise Conflict("Alerts are sent there already.", remediation="Remove the target first to change its rules.")
        details = {"kind": kind, "address": address, "rules": rules}
        _record(tx, actor, target_id, "added", details)
    answer = {"target_id": str(target_id), "kind": kind, "address": address, "rules": rules}
    return {**answer, "secret": secret_of(target_id) if kind == "webhook" else None}


def remove_target(*, actor: Actor, target_id: uuid.UUID) -> dict[str, Any]:
    """Send no more alerts there. Raises NotFound, PermissionDenied. Verb ``notice.manage``."""
    authorize(actor, v.NOTICE_MANAGE)
    with tenant_tx(actor.tenant_id) as tx:
        row = tx.one("remove_notice_target", (target_id,))
        if row is None:
            raise NotFound("There is no such target in this tenant.")
        _record(tx, actor, target_id, "removed", None)
    return {"target_id": str(target_id), "removed": True}


def secret_of(target_id: uuid.UUID, version: int = 1) -> str:
    """Return a webhook's signing secret. It is derived from SECRET_KEY, so no row of the database holds it.

    ``version`` counts the secrets that one target has had.
    """
    name = target_id.bytes if version == 1 else target_id.bytes + b":%d" % version
    key = hmac.new(settings.SECRET_KEY.encode(), b"quarterdeck.webhook:" + name, hashlib.sha256).digest()
    return "whsec_" + base64.b64encode(key).decode()


def host_allowed(url: str) -> bool:
    """Say whether webhooks may be sent to ``url``: https, or http on this machine, and a host of the allow-list."""
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return False
    if parts.username is not None or not host:
        return False
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        return False
    bare = f"[{host}]" if ":" in host else host
    allowed = {name.lower() for name in conf().webhook_hosts}
    actual = port or (443 if parts.scheme == "https" else 80)
    return f"{bare}:{actual}" in allowed or (bare in allowed and actual in (80, 443))


def check_url(url: str, where: str) -> None:
    """Refuse an address that webhooks are not sent to. Raises BadInput."""
    if len(url) > 500 or not url.isprintable():
        raise BadInput("An address has at most 500 printable characters.", where=where)
    if not host_allowed(url):
        raise BadInput(
            "Webhooks are not sent there.",
            where=where,
            remediation="Use https and a host that the operator lists in QUARTERDECK_WEBHOOK_HOSTS.",
        )


def _check(kind: str, address: str, rules: list[str] | None) -> None:
    if len(address) > 500 or not address.isprintable():
        raise BadInput("An address has at most 500 printable characters.", where="/address")
    if kind == "mail":
        try:
            validate_email(address)
        except ValidationError:
            raise BadInput(
                "This is no mail address.", where="/address", remediation="Write one like ops@example.com."
            ) from None
    elif kind == "webhook":
        check_url(address, "/address")
    else:
        raise BadInput("There is no such kind of target.", where="/kind", remediation="Use mail or webhook.")
    for index, rule in enumerate(rules or ()):
        if rule not in ALERT_RULES:
            mend = f"Use some of: {', '.join(ALERT_RULES)}."
            raise BadInput("There is no such rule.", where=f"/rules/{index}", remediation=mend)
    if rules is not None and not rules:
        raise BadInput(
            "A target with no rule gets nothing.", where="/rules", remediation="Leave rules out for all of them."
        )


def _record(tx: Tx, actor: Actor, target_id: uuid.UUID, result: str, details: dict[str, Any] | None) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=v.NOTICE_MANAGE,
        subject_kind="notice_target",
        subject_id=target_id,
        result=result,
        details=details,
    )
