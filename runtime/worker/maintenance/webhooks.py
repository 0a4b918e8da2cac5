"""Sending a signed webhook (Standard Webhooks), to hosts of the allow-list only, without following redirects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx2
from standardwebhooks import Webhook as Signer

from runtime.actions.notices import host_allowed
from runtime.kernel.messages import Webhook
from runtime.tools.contract import is_closed_address

_TIMEOUT_SECONDS = 10.0


class WebhookRefused(Exception):
    """The receiver did not take it, or it may not be sent there (any more)."""


def post(webhook: Webhook) -> None:
    """Send once. Raises WebhookRefused, httpx2's errors as WebhookRefused too."""
    if not host_allowed(webhook.url):
        raise WebhookRefused("The host is not among QUARTERDECK_WEBHOOK_HOSTS.")
    now = datetime.now(UTC)
    signature = Signer(webhook.secret).sign(msg_id=webhook.message_id, timestamp=now, data=webhook.body.decode())
    headers = {
        "content-type": "application/json",
        "user-agent": "quarterdeck",
        "webhook-id": webhook.message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    try:
        with httpx2.Client(timeout=_TIMEOUT_SECONDS, trust_env=False, follow_redirects=False) as client:
            with client.stream(
                "POST", webhook.url, content=webhook.body, headers=headers, extensions={"trace": _look_at_address}
            ) as answer:
                status = answer.status_code
    except httpx2.HTTPError as problem:
        raise WebhookRefused(f"{type(problem).__name__}: {problem}") from problem
    if not 200 <= status < 300:
        raise WebhookRefused(f"The receiver answered {status}.")


def _look_at_address(event: str, info: dict[str, Any]) -> None:
    """Refuse a name that leads to a link-local or metadata address, before anything is sent there."""
    if event == "connection.connect_tcp.complete":
        stream = info.get("return_value")
        address = stream.get_extra_info("server_addr") if stream is not None else None
        if address and is_closed_address(str(address[0])):
            raise WebhookRefused("The name leads to a link-local or metadata address.")
