"""Taking back what was registered: a verifier decides no more, a tool's version enters no new workflow (A2.5, C3.1)."""

from __future__ import annotations

from typing import Any

from runtime.access import verbs as v
from runtime.access.authorize import authorize
from runtime.actions.base import check_reason
from runtime.journal import audit
from runtime.kernel.actor import Actor
from runtime.kernel.errors import NotFound
from runtime.store.tx import Tx, tenant_tx


def revoke_verifier(*, actor: Actor, name: str, version: int, reason: str) -> dict[str, Any]:
    """Revoke a verifier and return {verifier, revoked_at, changed}; one that was revoked before stays so.

    Its outcomes stand; it records no further one, by itself or by a node of a run that is under way: such a step fails.
    Raises NotFound, BadInput (no reason), PermissionDenied. Verb ``workflow.register``, as for authorising it.
    """
    text = check_reason(reason, required=True)
    authorize(actor, v.WORKFLOW_REGISTER)
    with tenant_tx(actor.tenant_id) as tx:
        # Whoever records an outcome right now holds the row until that is written: the time of revoking is later.
        at, changed = _end(tx, ("lock_verifier", "end_verifier"), "verifier", name, version)
        if changed:
            _record(tx, actor, v.WORKFLOW_REGISTER, "verifier", f"{name}@{version}", "revoked", text)
    return {"verifier": f"{name}@{version}", "revoked_at": at, "changed": changed}


def retire_tool(*, actor: Actor, name: str, version: int, reason: str) -> dict[str, Any]:
    """Retire one version of a tool and return {tool, retired_at, changed}; one that was retired before stays so.

    No workflow is registered with it any more. Workflows that name it and their runs go on; but a step of it whose
    worker was lost holds, and a person decides (``recovery``). To end its calls at once set a stop. Raises NotFound,
    BadInput (no reason), PermissionDenied. Verb ``tool.register``, as for registering it.
    """
    text = check_reason(reason, required=True)
    authorize(actor, v.TOOL_REGISTER)
    with tenant_tx(actor.tenant_id) as tx:
        at, changed = _end(tx, ("lock_tool", "end_tool"), "tool", name, version)
        if changed:
            _record(tx, actor, v.TOOL_REGISTER, "tool", f"{name}@{version}", "retired", text)
    return {"tool": f"{name}@{version}", "retired_at": at, "changed": changed}


def _end(tx: Tx, queries: tuple[str, str], kind: str, name: str, version: int) -> tuple[Any, bool]:
    """Lock the row, then write the time; return it, and whether it was this call that wrote it."""
    lock, end = queries
    row = tx.one(lock, (name, version))
    if row is None:
        raise NotFound(f"There is no {kind} {name}@{version} in this tenant.")
    if row[1] is not None:
        return row[1], False
    written = tx.one(end, (row[0],))
    assert written is not None
    return written[0], True


def _record(tx: Tx, actor: Actor, verb: str, kind: str, reference: str, result: str, reason: str) -> None:
    audit.record(
        tx,
        actor=actor,
        verb=verb,
        subject_kind=kind,
        subject_id=reference,
        result=result,
        reason=reason,
        details={kind: reference},
    )
