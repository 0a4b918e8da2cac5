"""The policy that is active in a tenant now, asked in the transaction that it decides in."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from approvals.errors import NotUsable
from approvals.policy import DEFAULT, Policy, by_default, compiled, facts_of
from approvals.rendering import Rendered
from approvals.terms import Terms, stricter
from runtime.store.tx import Tx


def active_policy(tx: Tx) -> Policy | None:
    """Return the tenant's active policy, else its default, None where that allows: then only workflows ask people."""
    version, rules, default = tx.one("policy_active", (tx.tenant_id,)) or (None, b"", None)
    return by_default(default) if version is None else compiled(version, bytes(rules))


def under_policy(
    tx: Tx, rendered: Rendered, terms: Terms, workflow: str, kind: str, *, now: datetime, refuse_denied: bool = False
) -> Terms:
    """Return terms that also meet what the active policy asks for these calls; the rules stand in what is shown.

    An approval node keeps its own role: where the policy names another, the call asks for itself later.
    Raises NotUsable for a call that the policy denies, when asked to.
    """
    policy = active_policy(tx) if rendered.calls else None
    if policy is None or policy.version == DEFAULT:
        # By default the request itself is what the tenant asks for.
        return terms
    rules, requester = [], rendered.submitted_by or rendered.requested_by
    for call in rendered.calls:
        facts = facts_of(
            call.contract, call.arguments, requester=requester, workflow=workflow, node=call.node,
            business_key=call.business_key, now=now,
        )  # fmt: skip
        verdict = policy.judge(facts)
        said = {"node": call.node, "rule": verdict.rule, "decide": verdict.decide}
        # Whoever approves is told that it will be denied all the same, and why.
        rules.append({**said, "reason": verdict.reason} if verdict.reason else said)
        if verdict.decide == "deny" and refuse_denied:
            raise NotUsable(verdict.reason)
        if verdict.decide == "approval":
            role = terms.role
            terms = stricter(terms, verdict.terms)
            if kind == "node" and role:
                terms = replace(terms, role=role)
    rendered.policy = {"version": policy.version, "rules": rules}
    rendered.seal()
    return terms
