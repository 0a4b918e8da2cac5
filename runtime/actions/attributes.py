"""What a task's attributes refer to, looked up when it is submitted: verifier, tools and parent (A4.1, C1.2)."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import cache
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.actions.manifests import split_reference, tool_scopes
from runtime.graph.plan import Plan
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput, NotFound
from runtime.store.tx import Tx


class Referred:
    """What the attributes of one request's tasks name, read once however many of its items name it."""

    def __init__(self, tx: Tx) -> None:
        self.verifier = cache(lambda reference: tx.one("verifier_at", split_reference(reference)))
        self.run = cache(lambda run_id: tx.one("run_above", (run_id,)))


def check_success(referred: Referred, success: dict[str, Any], plan: Plan) -> None:
    """Raise BadInput when the criterion cites a verifier by which it can never be met.

    That is one that is not registered here or was revoked, or a machine check that no node of the workflow makes.
    """
    reference = success.get("verifier")
    if reference is None:
        return
    where = "/success/verifier"
    row = referred.verifier(reference)
    if row is None:
        mend = "GET verifiers/ lists those there are; `verifier authorise` adds one."
        raise BadInput(f"There is no verifier {reference}.", where=where, remediation=mend)
    method, revoked_at = row
    if revoked_at is not None:
        mend = "Cite one that may still record outcomes."
        raise BadInput(f"The verifier {reference} was revoked.", where=where, remediation=mend)
    judges = {node.verifier for node in plan.nodes.values() if node.kind == "verifier"}
    if method == "machine_check" and reference not in judges:
        detail = f"{reference} is a machine check, and no node of {plan.name} makes it."
        raise BadInput(detail, where=where, remediation="Cite a verifier of the workflow, or one that is a person.")


def check_capabilities(tx: Tx, scope: dict[str, Any], version_id: uuid.UUID, plan: Plan) -> None:
    """Raise BadInput when the scope leaves out a tool that every run of the workflow calls.

    What lies behind a switch or a fallback may be left out: it is refused where it would be called (C3.2).
    """
    if "tools" not in scope and "scopes" not in scope:
        return
    needed = sorted(plan.certain_tools)
    named = scope.get("tools")
    for reference in needed:
        if named is not None and not {reference, reference.rpartition("@")[0]} & set(named):
            raise BadInput(
                f"Every run of {plan.name} calls {reference}, which scope.tools leaves out.",
                where="/scope/tools",
                remediation="Add it, or submit to a workflow that does without.",
            )
    if (held := scope.get("scopes")) is not None:
        _check_scopes(plan, tool_scopes(tx, version_id, plan), needed, set(held))


def _check_scopes(plan: Plan, asked: dict[str, list[str]], needed: list[str], held: Collection[str]) -> None:
    for reference in needed:
        if missing := sorted(set(asked.get(reference, ())) - set(held)):
            raise BadInput(
                f"Every run of {plan.name} calls {reference}, which needs {', '.join(missing)}.",
                where="/scope/scopes",
                remediation="Add it to scope.scopes, or submit to a workflow that does without.",
            )


def bounds_below(above: tuple[Any, ...] | None) -> list[dict[str, Any]]:
    """Return what bounds a run besides its own budget: that of its parent, and what bounds the parent (C1.2, C3.2).

    ``above`` is the parent's row of ``run_above``, None without one. Each is {run, calls, effects}, the nearest first.
    """
    if above is None:
        return []
    run_id, budget, bounds = above
    own = {name: value for name, value in orjson.loads(budget).items() if name in ("calls", "effects")}
    inherited: list[dict[str, Any]] = orjson.loads(bounds)
    return [{"run": str(run_id), **own}, *inherited] if own else inherited


def check_parent(referred: Referred, actor: Actor, parent: uuid.UUID | None) -> None:
    """Raise NotFound unless the run that is named as parent is there, in this tenant, for this actor to see."""
    if parent is None:
        return
    if not may(actor, v.RUN_READ) or referred.run(parent) is None:
        raise NotFound(
            "There is no run of that id in this tenant.", where="/parent", remediation="Name the run that submits this."
        )
