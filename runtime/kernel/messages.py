"""What leaves the system, ready to be sent: made by a composer (``seams``), sent by the outbox's duty."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from urllib.parse import urlsplit

_LONGEST_PIECE = 60


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail in plain text; several addresses do not see each other.

    ``thread`` names what it is about, such as ``request.<uuid>``: all mails of one thread stand together in a mailbox.
    Letters, digits, dots and dashes; empty for a mail that stands alone. Of one message each ``language`` is one mail.
    """

    to: list[str]
    subject: str
    text: str
    thread: str = ""
    language: str = ""


def subject_of(said: str, about: uuid.UUID, *pieces: str | None) -> str:
    """Return the subject of a mail: what it says, what tells its thing from others alike, and the end of its id.

    A piece (a run's name, a business key) that is empty or was said already is left out; a long one is cut.
    """
    parts = [said]
    for piece in (" ".join(one.split()) for one in pieces if one):
        if piece and not any(piece in part for part in parts):
            parts.append(piece if len(piece) <= _LONGEST_PIECE else f"{piece[: _LONGEST_PIECE - 1]}…")
    return " · ".join([*parts, str(about)[-8:]])


def thread_headers(name: str, thread: str, public_url: str) -> dict[str, str]:
    """Return the headers that tell mails apart and keep a thread together (RFC 5322, 3.6.4).

    ``name`` is the mail's own and stays when it is sent once more, so that a mailbox keeps one of both. The thread's
    first id is that of no mail: whoever is asked later has the same one above theirs as who was asked first.
    """
    host = urlsplit(public_url).hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    headers = {"Message-ID": f"<{name}@{host}>"}
    if thread:
        headers |= {"In-Reply-To": f"<{thread}@{host}>", "References": f"<{thread}@{host}>"}
    return headers


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
