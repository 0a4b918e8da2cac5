"""Reads of side effects and large contents: operations, artifacts."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize, may
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotFound
from runtime.queries import failures, outputs
from runtime.queries.base import content, found, hexed, parsed, reading


def read_operation(*, actor: Actor, operation_id: uuid.UUID) -> dict[str, Any]:
    """Return an operation. ``payload`` and ``response`` need ``payload.read`` (A9.8), their hashes do not.

    Raises NotFound. Verb ``operation.read``.
    """
    with reading(actor, v.OPERATION_READ) as tx:
        rows = tx.dicts("read_operation", (operation_id,))
    row = found(rows[0] if rows else None, "operation")
    payload, response = row.pop("payload"), row.pop("response")
    row["tool"] = f"{row['tool']}@{row.pop('tool_version')}"
    row["payload_sha256"], row["response_sha256"] = hexed(row["payload_sha256"]), hexed(row["response_sha256"])
    place = {"run_id": row["run_id"], "step_id": row["step_id"], "status": row["status"]}
    row["error"] = failures.told(parsed(row["error"]), **place)
    row["output_kind"] = outputs.of_operation(row.pop("kind"), row["status"])
    row["redacted"] = not may(actor, v.PAYLOAD_READ)
    if not row["redacted"]:
        row["payload"], row["response"] = content(payload), content(response)
    return row


def read_artifact(*, actor: Actor, artifact_id: uuid.UUID) -> dict[str, Any]:
    """Return an artifact's size, hash and type, not its content. Raises NotFound. Verb ``artifact.read``."""
    with reading(actor, v.ARTIFACT_READ) as tx:
        rows = tx.dicts("read_artifact", (artifact_id,))
    row = found(rows[0] if rows else None, "artifact")
    row["sha256"] = hexed(row["sha256"])
    return row


def read_artifact_content(*, actor: Actor, artifact_id: uuid.UUID) -> tuple[bytes, str, str]:
    """Return (content, media type, SHA-256 in hex). Raises NotFound, also once it was purged.

    Verbs ``artifact.read`` and ``payload.read``.
    """
    authorize(actor, v.PAYLOAD_READ)
    with reading(actor, v.ARTIFACT_READ) as tx:
        row = found(tx.one("read_artifact_content", (artifact_id,)), "artifact")
    if row[0] is None:
        raise NotFound("The content was purged; its hash stays.", remediation="Nothing brings it back.")
    return bytes(row[0]), row[1], bytes(row[2]).hex()
