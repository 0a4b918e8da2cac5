"""Large results as artifacts: content addressed, stored before anything refers to it (C2.3)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from runtime.kernel.ids import uuid7
from runtime.store.arrays import arrays
from runtime.store.tx import Tx

# One statement carries so many bytes; PostgreSQL takes no message of a gigabyte.
_MOST_BYTES = 100_000_000


def store_results(tx: Tx, contents: Mapping[bytes, bytes]) -> dict[bytes, uuid.UUID]:
    """Store contents (by SHA-256) for good; return the artifacts' ids by the same hashes.

    They are locked in the order of their hashes, whoever stores what else: so two who store the same do not deadlock.
    """
    ids: dict[bytes, uuid.UUID] = {}
    for hashes in _parts(contents):
        rows = [(uuid7(), sha256, contents[sha256]) for sha256 in hashes]
        columns = dict(zip(("ids", "hashes", "contents"), arrays("uxx", rows), strict=True))
        found = tx.rows("store_results", {**columns, "tenant": tx.tenant_id, "type": "application/json"})
        ids.update((bytes(sha256), artifact_id) for sha256, artifact_id in found)
    return ids


def _parts(contents: Mapping[bytes, bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for sha256 in sorted(contents):
        if part and size + len(contents[sha256]) > _MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(sha256)
        size += len(contents[sha256])
    if part:
        yield part
