"""Which calls of a workflow stand behind which approvals (C5.3).

An approval gates the nodes it names; without a list, the first tool nodes that write on every way from it: what follows
a gated write (a mail about it, say) follows from what was approved.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from runtime.graph.plan import Plan
from runtime.store import locks
from runtime.store.tx import Tx
from runtime.tools.registry import tool_of

Gates = Mapping[str, tuple[str, ...]]

# By tenant and plan: both are immutable, and so are the tools a plan names by version.
_known: dict[tuple[uuid.UUID | None, int], tuple[Plan, Gates]] = {}
_MOST = 1024
# Approvals that were never asked because the branch was not taken, or because another branch of an OR join won.
_NOT_ASKED = ("branch", "or_lost")


def was_asked(status: str, cause: str | None) -> bool:
    """Say whether an approval whose step stands so was, or will be, asked; a person's skip takes it from no call."""
    return status != "skipped" or cause not in _NOT_ASKED


def asked_before(tx: Tx, plan: Plan, run_id: uuid.UUID, node: str) -> list[str]:
    """Return the approvals that gate a node in a run, without those of branches that were not taken."""
    names = gated_by(tx, plan).get(node, ())
    rows = locks.step_rows(tx, {(run_id, name) for name in names}) if names else []
    left_out = {row[2] for row in rows if not was_asked(row[6], row[7])}
    return [name for name in names if name not in left_out]


def gated_by(tx: Tx, plan: Plan) -> Gates:
    """Return gated node → the approvals that gate it; nothing when the workflow asks nobody."""
    if not plan.asks:
        return {}
    key = (tx.tenant_id, id(plan))
    found = _known.get(key)
    if found is None or found[0] is not plan:
        if len(_known) >= _MOST:
            _known.clear()
        found = _known[key] = (plan, _gates(tx, plan))
    return found[1]


def gated_nodes(tx: Tx, plan: Plan, approval: str) -> list[str]:
    """Return the nodes that one approval gates, in topological order."""
    return [node for node, approvals in gated_by(tx, plan).items() if approval in approvals]


def _gates(tx: Tx, plan: Plan) -> Gates:
    by_node: dict[str, list[str]] = {}
    for approval in plan.asks:
        named = plan.nodes[approval].gates
        for node in _first_writes(tx, plan, approval) if named is None else named:
            by_node.setdefault(node, []).append(approval)
    return {node: tuple(by_node[node]) for node in plan.order if node in by_node}


def _first_writes(tx: Tx, plan: Plan, approval: str) -> set[str]:
    found: set[str] = set()
    seen: set[str] = set()
    stack = [target for target, _edge in plan.nodes[approval].successors]
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        node = plan.nodes[name]
        if node.kind == "tool" and tool_of(tx, node.tool or "").contract.writes:
            found.add(name)
        else:
            stack.extend(target for target, _edge in node.successors)
    return found
