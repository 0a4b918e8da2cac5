"""Who answers for a tool, by the contract of the very version that was called (C3.1)."""

from __future__ import annotations

import json
import uuid

from runtime.machine.operations import OperationState
from runtime.store.tx import Tx

_owners: dict[uuid.UUID, str | None] = {}


def owner_of(tx: Tx, operation: OperationState) -> str | None:
    """Return the owner that the contract of the operation's tool names, None for none; a version is read once."""
    version = operation.tool_version_id
    if version not in _owners:
        row = tx.one("tool_version_contract", (version,))
        if len(_owners) > 10_000:
            _owners.clear()
        _owners[version] = json.loads(bytes(row[0])).get("owner") if row is not None else None
    return _owners[version]
