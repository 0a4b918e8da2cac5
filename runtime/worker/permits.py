"""Which tools a tenant's policy and a task's scope let be called (C3.2). What these hold is not told.

Each answers (code, sentence) of a refusal, or None. What does not say where it takes data goes nowhere where regions
are named: the policy is closed.
"""

from __future__ import annotations

from typing import Any

from runtime.tools.contract import ToolContract
from runtime.worker.work import Policy

Refusal = tuple[str, str]


def refused_by_policy(policy: Policy | None, contract: ToolContract) -> Refusal | None:
    """Return why the tenant's policy leaves a tool out; the product's own tools take data nowhere."""
    if policy is None:
        return None
    regions, scopes = policy.data_regions, policy.scopes
    if regions is not None and contract.data_region not in regions and not contract.name.startswith("core."):
        if contract.data_region is None:
            return "data_region", "The tool's contract names no data region, and this tenant's policy asks for one."
        return "data_region", "The tool's data region is not open to this tenant."
    if scopes is not None and not scopes.issuperset(contract.scopes):
        return "scope", "The tool needs a scope that this tenant does not have."
    return None


def refused_by_scope(scope: dict[str, Any], contract: ToolContract) -> Refusal | None:
    """Return why a task's own scope leaves a tool out."""
    if "scopes" in scope and not set(scope["scopes"]).issuperset(contract.scopes):
        return "scope", "The tool needs a scope that this task does not have."
    if "tools" in scope and not {contract.name, contract.reference} & set(scope["tools"]):
        return "scope", "The tool is not among those this task may use."
    return None
