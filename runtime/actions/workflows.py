"""Registering workflow versions: checked whole, immutable, the same content once (C4.7)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from runtime.access.authorize import authorize
from runtime.actions.base import frame
from runtime.actions.manifests import split_reference
from runtime.graph.plan import Plan
from runtime.graph.problems import warned
from runtime.graph.validate import ToolInfo, check_workflow, read_spec
from runtime.journal import audit
from runtime.kernel import seams
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.ids import uuid7
from runtime.store.tx import Tx


@dataclass(frozen=True, slots=True)
class _Known:
    """What registration asks of a tool."""

    input_schema: Any
    side_effect: str
    compensation: str | None
    retired: bool


def check(*, actor: Actor, raw: bytes | str) -> dict[str, Any]:
    """Check a workflow against the tenant's tools and write nothing.

    Returns {ok, name, nodes, edges, depth, tools, warnings}; ``warnings`` as of today, see :func:`register_workflow`.
    Raises InvalidWorkflow naming every place.
    """
    authorize(actor, "workflow.read")
    with frame(actor) as unit:
        plan = _check(unit.tx, raw)
        told = warned(seams.workflow_warnings(unit.tx, read_spec(raw)))
    return {
        "ok": True,
        "name": plan.name,
        "nodes": len(plan.nodes),
        "edges": plan.n_edges,
        "depth": plan.depth,
        "tools": sorted(plan.tools),
        **told,
    }


def _check(tx: Tx, raw: bytes | str) -> Plan:
    def known(reference: str) -> ToolInfo | None:
        name, number = split_reference(reference)
        rows = tx.rows("tools_by_name", ([name], [number]))
        if not rows:
            return None
        contract = json.loads(bytes(rows[0][3]))
        retired = rows[0][7] is not None
        return _Known(contract.get("input_schema"), contract["side_effect"], contract.get("compensation"), retired)

    return check_workflow(raw, known_tools=known)


def register_workflow(*, actor: Actor, raw: bytes | str) -> dict[str, Any]:
    """Register an immutable version; the same content again answers the version that holds it.

    Returns {workflow_version_id, name, version, spec_sha256, created, warnings}. ``warnings`` (where there are many,
    ``warnings_left_out`` counts the rest) say what is no mistake and will hold requests up all the same, as it stands
    today, also of content that is registered already: {where, detail, remediation}. Nothing is refused for them.
    Raises InvalidWorkflow, InvalidJSON, PayloadTooLarge, PermissionDenied; nothing is written then.
    """
    authorize(actor, "workflow.register")
    with frame(actor) as unit:
        plan = _check(unit.tx, raw)
        document = read_spec(raw)
        answer = _registered(unit.tx, actor, plan, canonical_bytes(document))
        return {**answer, **warned(seams.workflow_warnings(unit.tx, document))}


def _registered(tx: Tx, actor: Actor, plan: Plan, spec: bytes) -> dict[str, Any]:
    sha256 = digest(spec)
    held = tx.one("workflow_by_content", (plan.name, sha256))
    if held is not None:
        return _answer(held[0], plan.name, held[1], sha256, created=False)
    workflow = tx.one("claim_workflow_name", (uuid7(), tx.tenant_id, plan.name, plan.description))
    # Two registrations of one content race for the name's row; the second finds the first one's version.
    held = tx.one("workflow_by_content", (plan.name, sha256))
    if held is not None:
        return _answer(held[0], plan.name, held[1], sha256, created=False)
    version_id = uuid7()
    row = tx.one(
        "insert_workflow_version",
        {
            "id": version_id,
            "tenant": tx.tenant_id,
            "workflow": workflow[0],  # type: ignore[index]
            "spec": spec,
            "sha256": sha256,
            "by": actor.label,
        },
    )
    number = row[0]  # type: ignore[index]
    audit.record(
        tx,
        actor=actor,
        verb="workflow.register",
        subject_kind="workflow",
        subject_id=str(version_id),
        result="registered",
        details={"name": plan.name, "version": number, "sha256": sha256.hex()},
    )
    return _answer(version_id, plan.name, number, sha256, created=True)


def _answer(version_id: Any, name: str, number: int, sha256: bytes, *, created: bool) -> dict[str, Any]:
    return {
        "workflow_version_id": str(version_id),
        "name": name,
        "version": number,
        "spec_sha256": sha256.hex(),
        "created": created,
    }


def authorise_verifier(
    *, actor: Actor, name: str, version: int, method: str = "machine_check", description: str = ""
) -> dict[str, Any]:
    """Authorise a verifier to decide Outcomes in this tenant (A2.5); the same name and version is authorised once."""
    authorize(actor, "workflow.register")
    with frame(actor) as unit:
        row = unit.tx.one(
            "insert_verifier", (uuid7(), unit.tx.tenant_id, name, version, method, description, actor.label)
        )
        if row is not None:
            audit.record(
                unit.tx,
                actor=actor,
                verb="workflow.register",
                subject_kind="verifier",
                subject_id=str(row[0]),
                result="authorised",
                details={"verifier": f"{name}@{version}", "method": method},
            )
        return {"verifier": f"{name}@{version}", "created": row is not None}
