"""What leaves the system, ready to be sent: made by a composer (``seams``), sent by the outbox's duty."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail in plain text; several addresses do not see each other."""

    to: list[str]
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Webhook:
    """A message to ``url``; the receiver deduplicates by ``message_id`` and verifies with ``secret`` (whsec_…).

    While a secret is being exchanged ``old_secrets`` sign as well: the receiver takes any.
    """

    url: str
    secret: str
    message_id: str
    body: bytes
    old_secrets: tuple[str, ...] = ()
