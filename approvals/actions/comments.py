"""Comments on a request, with mentions and attachments. None of them decides anything (C5.4)."""

from __future__ import annotations

import re
import unicodedata
import uuid
from typing import Any

from approvals.asked import Asked, lock_request
from approvals.errors import NotUsable
from approvals.verbs import READ
from approvals.writing import note, tell
from runtime.access.authorize import authorize
from runtime.actions.acting import insist
from runtime.actions.base import check_reason, frame
from runtime.actions.references import keep_references
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.store.tx import Tx

# A user name as Django takes it: any letters, and signs that may as well end a sentence or go before another word.
_MENTION = re.compile(r"(?<![A-Za-z0-9_@])@([\w.@+-]{1,150})")
_WORD = re.compile(r"[A-Za-z0-9_]{2}")
MOST_MENTIONED = 20
# By one person on one request: whoever writes more hides what others say.
MOST_COMMENTS = 100
MOST_ATTACHED = 10
MOST_BYTES = 10_000_000
# What is read and not run: no markup, no programs, no archives.
MEDIA_TYPES = (
    "application/json",
    "application/pdf",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
    "text/csv",
    "text/markdown",
    "text/plain",
)


def comment_request(
    *, actor: Actor, request_id: uuid.UUID, text: str, attachments: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Add a comment; members named as ``@name`` in it are mentioned. It never counts as a decision.

    ``attachments`` are artifacts that were uploaded: {artifact_id, sha256, name?}, at most 10, of 10 MB each, of the
    types in ``MEDIA_TYPES``; they expire no more. Who may read them is asked where they are read (``payload.read``).
    Returns {approval_id, mentions, attachments}. Raises BadInput for an empty comment or an artifact that is not there,
    of another hash, too large or of another type; NotUsable after MOST_COMMENTS; NotFound. Verb ``approval.read``.
    """
    authorize(actor, READ)
    words, wanted = check_reason(text, required=True), attachments or []
    if len(wanted) > MOST_ATTACHED:
        mend = "Write a second comment."
        raise BadInput(f"At most {MOST_ATTACHED} files are attached.", where="/attachments", remediation=mend)
    answer: dict[str, Any] = insist(lambda: _comment(actor, request_id, words, wanted))
    return answer


def _comment(actor: Actor, request_id: uuid.UUID, words: str, wanted: list[dict[str, Any]]) -> dict[str, Any]:
    with frame(actor) as unit:
        tx = unit.tx
        asked = lock_request(unit, request_id)
        _refuse_many(tx, actor, asked)
        found = _mentioned(tx, words)
        attached = [_attached(tx, one, f"/attachments/{i}") for i, one in enumerate(wanted)]
        details = {**({"mentions": found} if found else {}), **({"attachments": attached} if attached else {})}
        note(tx, asked.id, "comment", actor.label, words, details or None)
        if found:
            tell_mentioned(tx, asked, found)
    return {"approval_id": str(request_id), "mentions": found, "attachments": attached}


def _refuse_many(tx: Tx, actor: Actor, asked: Asked) -> None:
    row = tx.one("approval_comments_by", (asked.id, actor.label))
    if row is not None and row[0] >= MOST_COMMENTS:
        mend = "Write to whom it is for."
        raise NotUsable(
            f"You have written {row[0]} comments on it; that is the most.", remediation=mend, **asked.there()
        )


def _mentioned(tx: Tx, words: str) -> list[str]:
    """Return the labels of the members that a comment names, at most MOST_MENTIONED, in their order.

    After ``@`` the longest name of a member counts: what follows it may be a full stop, or the next word of a script
    that writes none of its words apart. Names are kept in their compatibility form (NFKC), whichever form was typed.
    """
    texts = list(dict.fromkeys(_MENTION.findall(unicodedata.normalize("NFKC", words))))[:MOST_MENTIONED]
    wanted = {text: [text[:end] for end in range(len(text), 0, -1) if _ends(text, end)] for text in texts}
    names = sorted({name for ends in wanted.values() for name in ends})
    there = {row[0] for row in tx.rows("members_named", (names,))} if names else set()
    found = (next((name for name in ends if name in there), None) for ends in wanted.values())
    return [f"user:{name}" for name in dict.fromkeys(found) if name is not None]


def _ends(text: str, end: int) -> bool:
    """Say whether a name could end there: not amid a word of letters that are written together."""
    return _WORD.fullmatch(text[end - 1 : end + 1]) is None


def tell_mentioned(tx: Tx, asked: Asked, labels: list[str]) -> None:
    """Tell those who are mentioned that a comment names them."""
    for label in labels:
        tell(tx, asked.id, tx.now(), f"mentioned:{label.removeprefix('user:')}")


def check_media_type(media_type: str, where: str) -> None:
    """Refuse a type that is not attached. Raises BadInput."""
    if media_type.partition(";")[0].strip().lower() not in MEDIA_TYPES:
        mend = f"Attach one of: {', '.join(MEDIA_TYPES)}."
        raise BadInput(f"Files of the type {media_type} are not attached.", where=where, remediation=mend)


def check_size(size: int, where: str) -> None:
    """Refuse a file that is too large. Raises BadInput."""
    if size > MOST_BYTES:
        detail = f"The file has {size} bytes; at most {MOST_BYTES} are attached."
        raise BadInput(detail, where=where, remediation="Attach a smaller one, or link to it.")


def _attached(tx: Tx, one: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the facts of one attachment, whose content is kept from now on."""
    name = one.get("name", "")
    if len(name) > 200 or not name.isprintable():
        raise BadInput("A file's name has at most 200 printable characters.", where=f"{where}/name")
    keep_references(tx, {"artifact_id": one["artifact_id"], "sha256": one["sha256"]}, where)
    row = tx.one("artifact_facts", (uuid.UUID(one["artifact_id"]),))
    assert row is not None, "it was found a moment ago"
    artifact_id, sha256, size, media_type = row
    check_size(size, where)
    check_media_type(media_type, where)
    facts = {"artifact_id": str(artifact_id), "sha256": bytes(sha256).hex(), "size": size, "media_type": media_type}
    return {**facts, "name": name}
