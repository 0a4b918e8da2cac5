"""Which tools a tenant's policy and a task's scope let be called, and what a run's budget leaves (C3.2).

What policy and scope hold is not told.

Each answers (code, sentence) of a refusal, or None. What does not say where it takes data goes nowhere where regions
are named: the policy is closed.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

from runtime.tools.contract import ToolContract
from runtime.tools.registry import RegisteredTool
from runtime.worker.work import REST_SECONDS, Claimed, Policy, Report

Refusal = tuple[str, str]
UNSIGNED = "samples_unsigned"


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


def waits_for_signature(claimed: Claimed, tool: RegisteredTool) -> Report | None:
    """Let a step wait whose tool may not be called before its samples are signed for its contract (C8.8)."""
    if not tool.unsigned:
        return None
    reference = tool.contract.reference
    message = f"The samples of {reference} are not signed for its contract."
    # Which tool: it may be the one that reads the target, and who lets steps go on asks whether that is signed now.
    error = {"class": "policy", "code": UNSIGNED, "message": message, "sent": False, "tool": reference}
    later = claimed.now + timedelta(seconds=REST_SECONDS)
    return Report(claimed, "yielded", cause="stopped", not_before=later, error=error)


def refused_by_scope(scope: dict[str, Any], contract: ToolContract) -> Refusal | None:
    """Return why a task's own scope leaves a tool out."""
    if "scopes" in scope and not set(scope["scopes"]).issuperset(contract.scopes):
        return "scope", "The tool needs a scope that this task does not have."
    if "tools" in scope and not {contract.name, contract.reference} & set(scope["tools"]):
        return "scope", "The tool is not among those this task may use."
    return None


def refused_by_budget(claimed: Claimed) -> Report | None:
    """Refuse a call for good once calls that were made use up a budget; before that it waits for those in hand.

    What is in hand may yet be adopted, answered or refused, and is then no call.
    """
    full = [one for one in claimed.calls if one.before >= one.most]
    if not full:
        return None
    for one in full:
        if one.made >= one.most:
            code, message = exhausted("calls", one.most, claimed, one.run_id)
            return Report(claimed, "failed", error={"class": "budget", "message": message, "code": code, "sent": False})
    # At once at first: what is adopted is over with this claim. Then ever later, since a call may take long.
    delay = 0.5 * 2.0 ** min(claimed.attempt - 2, 6) if claimed.attempt > 1 else 0.0
    return Report(claimed, "given_back", cause="given_back", not_before=claimed.now + timedelta(seconds=delay))


def exhausted(what: str, most: int, claimed: Claimed, run_id: uuid.UUID) -> Refusal:
    """Return the refusal of what goes beyond the ``most`` calls or effects of a run: the step's own or one above."""
    if run_id == claimed.run_id:
        return f"{what}_exhausted", f"The run's budget of {what} ({most}) is used up."
    return f"{what}_exhausted", f"The budget of {what} ({most}) of run {run_id}, above this one, is used up."
