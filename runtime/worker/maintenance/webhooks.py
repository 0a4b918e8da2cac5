"""Sending a signed webhook (Standard Webhooks), to hosts of the allow-list only, without following redirects."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
from standardwebhooks import Webhook as Signer

from runtime.actions.notices import host_allowed
from runtime.kernel.messages import Webhook
from runtime.tools.contract import is_closed_address
from runtime.tools.egress import refused

_TIMEOUT_SECONDS = 10.0


class WebhookRefused(Exception):
    """The receiver did not take it, or it may not be sent there (any more)."""


def post(webhook: Webhook) -> None:
    """Send once. Raises WebhookRefused, httpx2's errors as WebhookRefused too."""
    if not host_allowed(webhook.url):
        raise WebhookRefused("The host is not among QUARTERDECK_WEBHOOK_HOSTS.")
    now = datetime.now(UTC)
    secrets = [webhook.secret, *webhook.old_secrets]
    text = webhook.body.decode()
    signature = " ".join(Signer(one).sign(msg_id=webhook.message_id, timestamp=now, data=text) for one in secrets)
    headers = {
        "content-type": "application/json",
        "user-agent": "quarterdeck",
        "webhook-id": webhook.message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    try:
        with httpx2.Client(timeout=_TIMEOUT_SECONDS, trust_env=False, follow_redirects=False) as client:
            trace = {"trace": partial(_look_at_address, webhook.url)}
            with client.stream("POST", webhook.url, content=webhook.body, headers=headers, extensions=trace) as answer:
                status = answer.status_code
    except httpx2.HTTPError as problem:
        raise WebhookRefused(f"{type(problem).__name__}: {problem}") from problem
    if not 200 <= status < 300:
        raise WebhookRefused(f"The receiver answered {status}.")


def _look_at_address(url: str, event: str, info: dict[str, Any]) -> None:
    """Refuse a name that leads to a closed or private address, as for tools, before anything is sent there."""
    if event == "connection.connect_tcp.complete":
        stream = info.get("return_value")
        address = stream.get_extra_info("server_addr") if stream is not None else None
        if address and (why := address_refused(url, str(address[0]))) is not None:
            raise WebhookRefused(why)


def address_refused(url: str, address: str) -> str | None:
    """Return why nothing is sent to ``address`` for ``url``; None when it may be.

    Who lists an address itself, or this machine by name, means it. Any other name may lead to a public address, or to
    one that QUARTERDECK_TOOL_PRIVATE_HOSTS lists.
    """
    host = (urlsplit(url).hostname or "").lower()
    if host == "localhost" or _is_address(host):
        closed = is_closed_address(address)
        return "The name leads to a link-local or metadata address." if closed else None
    return refused(url, address)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
