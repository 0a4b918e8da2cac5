"""References to artifacts inside a task's input: checked by hash first, and kept from then on (C2.3)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from runtime.kernel.errors import BadInput
from runtime.store.tx import Tx

# An object of exactly these members, anywhere in the input, is a reference.
MEMBERS = frozenset({"artifact_id", "sha256"})
MOST = 100


def keep_references(tx: Tx, value: Any, root: str = "/input") -> int:
    """Check every reference in ``value`` and let what it names expire no more; returns how many there are.

    ``root`` is the place of ``value`` in what the client sent.
    Raises BadInput with the place of one that names no artifact of this tenant, one of another hash, or one whose
    content has expired.
    """
    wanted = list(_references(value, root))
    if not wanted:
        return 0
    if len(wanted) > MOST:
        raise BadInput(f"An input refers to at most {MOST} artifacts.", where=root, remediation="Pack them.")
    ids = sorted({one[0] for one in wanted})
    known = {row[0]: row[1:] for row in tx.rows("artifacts_for_reference", (ids,))}
    if fresh := [one for one in ids if one in known and known[one][1]]:
        kept = {row[0] for row in tx.rows("keep_artifacts", (fresh,))}
        known = {one: facts for one, facts in known.items() if one not in fresh or one in kept}
    for artifact_id, sha256, where in wanted:
        if artifact_id not in known or bytes(known[artifact_id][0]) != sha256:
            raise BadInput(
                "The reference names no artifact of this hash in the tenant.",
                where=where,
                remediation="Upload the content (POST artifacts/) and pass the artifact_id and sha256 it answers with.",
            )
    return len(wanted)


def _references(value: Any, where: str) -> Iterator[tuple[uuid.UUID, bytes, str]]:
    if isinstance(value, dict):
        if value.keys() == MEMBERS:
            yield _parse(value, where)
            return
        for name, part in value.items():
            yield from _references(part, f"{where}/{name.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _references(part, f"{where}/{index}")


def _parse(value: dict[str, Any], where: str) -> tuple[uuid.UUID, bytes, str]:
    try:
        return uuid.UUID(value["artifact_id"]), bytes.fromhex(value["sha256"]), where
    except (ValueError, TypeError, AttributeError):
        raise BadInput(
            "A reference to an artifact has a UUID and a SHA-256 in hexadecimal.",
            where=where,
            remediation="Pass the artifact_id and sha256 that POST artifacts/ answered with.",
        ) from None
