"""Sending a signed webhook (Standard Webhooks), to hosts of the allow-list only, without following redirects."""

from __future__ import annotations

import ipaddress
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx2
from standardwebhooks import Webhook as Signer

from runtime.actions.notices import host_allowed
from runtime.kernel.messages import Webhook
from runtime.tools.addresses import is_closed_address
from runtime.tools.dialing import AddressRefused, BlockingJudgedTransport
from runtime.tools.egress import refused

_TIMEOUT_SECONDS = 10.0
# The whole of a post: a receiver that answers a byte at a time keeps within each of the timeouts above.
_WHOLE_SECONDS = 15.0
_LATE = f"The receiver took longer than {_WHOLE_SECONDS:g} seconds."
# Answers that are about this message and not about the receiver.
_THIS_MESSAGE = (400, 413, 422)


class WebhookRefused(Exception):
    """The receiver did not take it, or it may not be sent there (any more).

    ``away``: it takes no other message now either; otherwise it answers, and it is this one that it does not take.
    """

    def __init__(self, detail: str, *, away: bool = True) -> None:
        super().__init__(detail)
        self.away = away


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
    guard = _Guard()
    try:
        # A client of its own for each post: none is shared between threads.
        way = BlockingJudgedTransport(lambda _host, _port, address: address_refused(webhook.url, address))
        words: dict[str, Any] = {"timeout": _TIMEOUT_SECONDS, "trust_env": False, "follow_redirects": False}
        with guard, httpx2.Client(transport=way, **words) as client:
            trace = {"trace": guard.look}
            with client.stream("POST", webhook.url, content=webhook.body, headers=headers, extensions=trace) as answer:
                status = answer.status_code
    except AddressRefused as why:
        raise WebhookRefused(str(why)) from why
    except httpx2.HTTPError as problem:
        raise WebhookRefused(_LATE if guard.over else f"{type(problem).__name__}: {problem}") from problem
    if not 200 <= status < 300:
        raise WebhookRefused(f"The receiver answered {status}.", away=status not in _THIS_MESSAGE)


class _Guard:
    """Ends a post that takes too long as a whole."""

    def __init__(self) -> None:
        self.over = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(_WHOLE_SECONDS, self._end)
        self._timer.daemon = True

    def __enter__(self) -> _Guard:
        self._timer.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._timer.cancel()

    def look(self, event: str, info: dict[str, Any]) -> None:
        """Keep the connection, so that it can be ended."""
        stream = info.get("return_value")
        if stream is None or event not in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            return
        self._socket = stream.get_extra_info("socket")
        if self.over:
            raise WebhookRefused(_LATE)

    def _end(self) -> None:
        self.over = True
        if (open_socket := self._socket) is not None:
            with suppress(OSError):  # shut, not closed: the post's own thread sees the end and closes it
                socket.socket.shutdown(open_socket, socket.SHUT_RDWR)


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
