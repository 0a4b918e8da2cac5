"""The state of a tenant's audit chain, walked on demand."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.journal.audit import verify
from runtime.kernel.actor import Actor
from runtime.kernel.errors import QueueFull
from runtime.queries.base import reading

# Longer chains are walked by the command, not while a page waits.
MOST_ENTRIES = 200_000


def verify_chain(*, actor: Actor) -> dict[str, Any]:
    """Walk the tenant's chain: {ok, entries, head_number, head_sha256, breaches, at}. Verb ``audit.read``.

    Raises QueueFull for a chain that is too long to be walked while somebody waits.
    """
    authorize(actor, v.AUDIT_READ)
    with reading(actor, v.AUDIT_READ) as tx:
        at = tx.now()
        head = tx.one("audit_head", (actor.tenant_id,))
    if head is not None and head[0] > MOST_ENTRIES:
        raise QueueFull(
            f"The chain has {head[0]} entries; here at most {MOST_ENTRIES} are walked.",
            remediation="Run `manage.py audit verify` where the installation runs.",
        )
    report = verify(actor.tenant_id)
    return {
        "ok": report.ok,
        "entries": report.entries,
        "head_number": report.head_number,
        "head_sha256": report.head_sha256,
        "breaches": report.breaches,
        "at": at,
    }
