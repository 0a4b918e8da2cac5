"""Compiled plans by workflow version, cached in the process: versions are immutable, so nothing ever expires."""

from __future__ import annotations

import json
import uuid
from functools import lru_cache

from runtime.graph.plan import Plan
from runtime.kernel.errors import NotFound
from runtime.store.tx import Tx


@lru_cache(maxsize=256)
def _compiled(spec: bytes) -> Plan:
    return Plan.from_spec(json.loads(spec))


_by_version: dict[tuple[uuid.UUID | None, uuid.UUID], Plan] = {}


def plan_of(tx: Tx, workflow_version_id: uuid.UUID) -> Plan:
    """Return the plan of a workflow version of this tenant. Raises NotFound."""
    key = (tx.tenant_id, workflow_version_id)
    plan = _by_version.get(key)
    if plan is None:
        row = tx.one("workflow_spec", (workflow_version_id,))
        if row is None:
            raise NotFound("There is no workflow version of that id.")
        if len(_by_version) >= 1024:
            _by_version.clear()
        plan = _by_version[key] = _compiled(bytes(row[0]))
    return plan
