"""Uploading large content: stored under its hash before anything refers to it (C2.3, C5.1)."""

from __future__ import annotations

import re
import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, PayloadTooLarge
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx, tenant_tx

# What is sent where nobody says of which type it is: by this API for a request without one, and by curl.
_UNNAMED = ("application/octet-stream", "application/x-www-form-urlencoded")
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,80}/[a-z0-9][a-z0-9!#$&^_.+-]{0,80}(; ?[ -~]{1,60})?", re.ASCII)


def upload_artifact(*, actor: Actor, body: bytes, media_type: str, sha256: bytes) -> dict[str, Any]:
    """Store ``body`` and return {artifact_id, sha256, size, media_type, created}.

    ``sha256`` is what the sender computed: a body damaged on its way is refused. The same content again answers with
    the artifact that is there, and gives it its media type where nobody has named one yet; a type that was named stays.
    Until something refers to it, it expires after seven days.
    Raises PermissionDenied, PayloadTooLarge, BadInput. Verb ``artifact.write``.
    """
    authorize(actor, v.ARTIFACT_WRITE)
    if len(body) > (limit := conf().max_result_bytes):
        raise PayloadTooLarge(f"The artifact has {len(body)} bytes; the limit is {limit}.", limit=limit)
    if not _MEDIA_TYPE.fullmatch(media_type.lower()):
        raise BadInput(
            "The media type is not valid.", where="header Content-Type", remediation="Send one like text/csv."
        )
    if digest(body) != sha256:
        raise BadInput(
            "The content does not have the hash that was sent with it.",
            where="header Content-Digest",
            remediation="Compute SHA-256 over exactly the bytes of the body and send both again.",
        )
    with tenant_tx(actor.tenant_id) as tx:
        artifact_id, stored_type, created = _store(tx, actor, body, media_type.lower(), sha256)
    return {
        "artifact_id": str(artifact_id),
        "sha256": sha256.hex(),
        "size": len(body),
        "media_type": stored_type,
        "created": created,
    }


def _store(tx: Tx, actor: Actor, body: bytes, media_type: str, sha256: bytes) -> tuple[uuid.UUID, str, bool]:
    row = tx.one("insert_artifact", (uuid7(), tx.tenant_id, sha256, len(body), media_type, body, actor.label))
    if row is not None:
        _record(tx, actor, row[0], {"sha256": sha256.hex(), "size": len(body)})
        return row[0], media_type, True
    there = tx.one("artifact_by_hash", (sha256,))
    assert there is not None
    artifact_id, gone, stored_type = there
    if gone:
        tx.send("restore_artifact", (body, artifact_id))
    if stored_type not in _UNNAMED or media_type in _UNNAMED:
        return artifact_id, stored_type, False
    tx.send("type_artifact", (media_type, artifact_id))
    _record(tx, actor, artifact_id, {"sha256": sha256.hex(), "media_type": media_type})
    return artifact_id, media_type, False


def _record(tx: Tx, actor: Actor, artifact_id: uuid.UUID, details: dict[str, Any]) -> None:
    audit.record(
        tx, actor=actor, verb=v.ARTIFACT_WRITE, subject_kind="artifact", subject_id=artifact_id, details=details
    )
