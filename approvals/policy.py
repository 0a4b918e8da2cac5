"""Rules that say which writing calls go on by themselves, which need people, and which are denied (C5.3, A10.2). Pure.

A policy is a list of rules in CEL, read from the top: the first whose condition holds decides. A call that no rule
names is denied, and so is one whose rule cannot be evaluated: what the author did not foresee does not happen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Literal

import orjson

from approvals.groups import NAME, asked_of_group
from approvals.law import ON_TIMEOUT, RISKS, SEPARATIONS
from approvals.risk import judge
from approvals.settings import ASK, DENY, KEY
from approvals.terms import Terms
from runtime.access.roles import ROLES
from runtime.graph.expressions import Expression, compile_expression
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import BadInput, InvalidExpression
from runtime.kernel.schemas import compile_schema
from runtime.tools.contract import ToolContract

# What a rule reads; the manual and the console's page say what each is.
NAMES = frozenset(
    {
        "tool",
        "arguments",
        "target",
        "amount",
        "risk",
        "risks",
        "requester",
        "workflow",
        "node",
        "business_key",
        "undoes",
        "now",
    }
)
# A call's amount is the first of these among its arguments.
AMOUNTS = ("amount", "total", "sum")
# The version of a tenant's default, where no policy is active; and why it denies.
DEFAULT = 0
UNNAMED = "No policy is active, and this tenant denies what no approval of the workflow lets through."
MAX_RULES = 200
MAX_BYTES = 128_000
MAX_DIGITS = 400
# They are evaluated under the locks of a send: each is bounded by celscan, their loops over arguments by this as well.
MAX_LOOPS = 16
# About how many microseconds their regular expressions take together.
MAX_PATTERNS = 20_000
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": 31_536_000}

RULES_SCHEMA: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_RULES,
    "items": {
        "type": "object",
        "required": ["name", "when", "decide"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 100},
            "when": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "CEL; true: it decides."},
            "decide": {"enum": ["allow", "approval", "deny"]},
            "role": {"enum": sorted(ROLES)},
            "group": {"type": "string", "pattern": f"^{NAME.pattern}$", "description": "In place of a role."},
            "quorum": {"type": "integer", "minimum": 1, "maximum": 20},
            "separation": {"enum": list(SEPARATIONS)},
            "expires_s": _SECONDS,
            "start_within_s": _SECONDS,
            "on_timeout": {"enum": [one for one in ON_TIMEOUT if one != "escalate"]},
        },
    },
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; ``terms`` say on which terms people decide, where they have to.

    ``when`` is None where an older release took an expression that this one does not: the rule denies.
    """

    name: str
    when: Expression | None
    decide: Literal["allow", "approval", "deny"]
    terms: Terms


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a policy says of one call: by which rule (None: by none), and why.

    ``yields``: an approval of the workflow for this very call is enough. So says the tenant's default, which is called
    by its setting and is no rule.
    """

    decide: Literal["allow", "approval", "deny"]
    rule: str | None
    reason: str = ""
    terms: Terms = field(default_factory=Terms)
    yields: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """A version's rules, compiled; version 0 without rules: what the tenant's default says of every writing call."""

    version: int
    sha256: bytes
    rules: tuple[Rule, ...]
    default: Literal["approval", "deny"] = "deny"

    def judge(self, facts: dict[str, Any]) -> Verdict:
        """Return what the first rule that holds says. Never raises: what cannot be evaluated is denied."""
        for rule in self.rules:
            try:
                holds = rule.when.test(facts) if rule.when is not None else None
            except InvalidExpression as problem:
                return Verdict("deny", rule.name, f"Rule {rule.name!r} cannot be evaluated: {problem.detail}"[:500])
            if holds is None:
                return Verdict("deny", rule.name, f"Rule {rule.name!r} is no expression of this release.")
            if holds:
                reason = f"Rule {rule.name!r} of policy {self.version} denies it." if rule.decide == "deny" else ""
                return Verdict(rule.decide, rule.name, reason, rule.terms)
        if self.version == DEFAULT:
            reason = UNNAMED if self.default == "deny" else ""
            return Verdict(self.default, KEY, reason, yields=True)
        return Verdict("deny", None, f"No rule of policy {self.version} names this call.")


def facts_of(
    contract: ToolContract,
    arguments: Any,
    *,
    requester: str,
    workflow: str,
    node: str,
    business_key: str,
    now: datetime,
    undoes: bool = False,
) -> dict[str, Any]:
    """Return what rules read of a call, by the names of ``NAMES``; ``undoes``: it undoes the effect of another."""
    level, reasons = judge([contract])
    return {
        "tool": {
            "name": contract.name,
            "version": contract.version,
            "recovery": contract.recovery,
            "idempotency": contract.idempotency,
            "undo": contract.compensation is not None,
            "targets": list(contract.targets),
            "region": contract.data_region or "",
        },
        "arguments": arguments,
        "target": _target(contract, arguments),
        "amount": amount_of(arguments),
        "requester": requester,
        "workflow": workflow,
        "node": node,
        "business_key": business_key,
        "undoes": undoes,
        "risk": RISKS[level],
        "risks": reasons,
        "now": {"hour": now.hour, "weekday": now.isoweekday(), "date": now.date().isoformat()},
    }


def amount_of(arguments: Any) -> float | None:
    """Return the amount that arguments name; money travels as text, so a text that is a number counts.

    None where there is none, and for what no number compares with: a rule that compares it all the same denies.
    """
    if not isinstance(arguments, dict):
        return None
    value = next((arguments[name] for name in AMOUNTS if name in arguments), None)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > MAX_DIGITS:
        return None
    try:
        found = float(Decimal(value)) if isinstance(value, str) else float(value)
    except (InvalidOperation, OverflowError):
        return None
    return found if math.isfinite(found) else None


def _target(contract: ToolContract, arguments: Any) -> str:
    return (contract.state(arguments) or "") if isinstance(arguments, dict) else ""


def check_rules(rules: Any) -> bytes:
    """Return the canonical bytes of rules that can be used. Raises BadInput naming the place."""
    form = compile_schema(RULES_SCHEMA)
    if not form.fits(rules):
        first = form.problems(rules)[0]
        raise BadInput(first.detail, where=f"/rules{first.where}", remediation=first.mend)
    names, loops, patterns = [rule["name"] for rule in rules], 0, 0
    for i, rule in enumerate(rules):
        if names.index(rule["name"]) != i:
            mend = "Give each rule its own name."
            raise BadInput(f"Two rules are called {rule['name']!r}.", where=f"/rules/{i}/name", remediation=mend)
        if "group" in rule and "role" in rule:
            mend = "Leave one of them out."
            raise BadInput("A rule asks a role or a group.", where=f"/rules/{i}/group", remediation=mend)
        try:
            when = compile_expression(rule["when"], NAMES)
        except InvalidExpression as problem:
            raise InvalidExpression(
                problem.detail, where=f"/rules/{i}/when", remediation=problem.remediation
            ) from problem
        loops, patterns = loops + when.macros, patterns + when.patterns
        if loops > MAX_LOOPS or patterns > MAX_PATTERNS:
            mend = "Let a step of the workflow compute it, and compare its result."
            many = f"more than {MAX_LOOPS} comprehensions" if loops > MAX_LOOPS else "too costly patterns"
            raise BadInput(f"The rules have {many} together.", where=f"/rules/{i}/when", remediation=mend)
    if len(data := canonical_bytes(rules)) > MAX_BYTES:
        mend = "Shorten them, or leave out what another rule decides already."
        raise BadInput(f"The rules have {len(data)} bytes; the limit is {MAX_BYTES}.", where="/rules", remediation=mend)
    return data


_BY_DEFAULT = {
    ASK: Policy(DEFAULT, b"", (), "approval"),
    DENY: Policy(DEFAULT, b"", (), "deny"),
}


def by_default(said: str | None) -> Policy | None:
    """Return what judges where no policy is active, by the setting ``approvals.default``; None: nothing does."""
    return _BY_DEFAULT.get(said or "")


@lru_cache(maxsize=64)
def compiled(version: int, rules: bytes) -> Policy:
    """Return the policy of a version whose rules were checked."""
    return Policy(version, digest(rules), tuple(_rule(rule) for rule in orjson.loads(rules)))


def _rule(raw: dict[str, Any]) -> Rule:
    given = ("role", "quorum", "separation", "expires_s", "start_within_s", "on_timeout")
    terms = Terms(**{name: raw[name] for name in given if name in raw})
    if "group" in raw:
        terms = replace(terms, role=asked_of_group(raw["group"]))
    try:
        when = compile_expression(raw["when"], NAMES)
    except InvalidExpression:
        when = None
    return Rule(raw["name"], when, raw["decide"], terms)
