"""Alerts as the duty writes them, for tests that only show them."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

from runtime.kernel.ids import uuid7
from runtime.models import Tenant
from runtime.store.tx import tenant_tx


def about(kind: str, run_id: uuid.UUID | None = None, label: str = "", subject_id: Any = None) -> dict[str, Any]:
    """Return a subject of an alert."""
    return {
        "kind": kind,
        "id": str(subject_id or uuid7()),
        "run_id": str(run_id) if run_id else None,
        "label": label or f"a {kind}",
    }


def alert(
    tenant: Tenant, rule: str, *subjects: dict[str, Any], count: int = 0, age: float = 60.0, severity: str = "warning"
) -> uuid.UUID:
    """Open an alert that began ``age`` seconds ago about ``subjects``; ``count`` may be more than those listed."""
    titles = {
        "worker_lost": "Workers lost and not replaced: host",
        "quarantined": "Messages in quarantine: mail",
        "circuit_open": "Calls held back, the tool keeps failing: core.echo@1",
        "queue_full": "So much waits that new work is refused, low priority first",
        "queue_old": "Steps that are ready and are not started",
        "class_late": "Steps past the start their class aims at: interactive",
        "failed_runs": "Failed runs: plain, step a, server_error",
        "unknown_operations": "Effects of unknown outcome: core.echo@1",
        "needs_attention": "Runs that need attention: plain",
    }
    alert_id, count = uuid7(), count or len(subjects)
    with tenant_tx(tenant.id) as tx:
        at = tx.now() - timedelta(seconds=age)
        row = (
            alert_id, tx.tenant_id, f"{rule}:{alert_id}", rule, severity, f"{titles[rule]} ({count})",
            json.dumps(subjects), count, at, at,
        )  # fmt: skip
        tx.send("alert_insert", row)
    return alert_id


def heal(tenant: Tenant, alert_id: uuid.UUID) -> None:
    """Close an alert, as the duty does once nothing is wrong any more."""
    with tenant_tx(tenant.id) as tx:
        tx.send("alerts_close", ([alert_id],))
