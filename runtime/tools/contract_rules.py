"""What a contract may not promise: a recovery, a look, a proof that its own parts cannot give (C3.1, C3.3, C4.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from runtime.kernel.errors import InvalidExpression
from runtime.tools.contract_schema import REFERENCE_PATTERN
from runtime.tools.lookup import compile_lookup
from runtime.tools.present import compile_present
from runtime.tools.proof import compile_proof


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a contract: a JSON pointer, what is wrong, and how to mend it."""

    where: str
    detail: str
    mend: str


def recovery_problems(c: dict[str, Any]) -> list[Problem]:
    """A contract may not promise a recovery that its own parts cannot give (C3.3, C4.1)."""
    found, writes = [], c["side_effect"] == "write"
    if writes and c["recovery"] == "replayable":
        mend = 'Choose "idempotent", "query", "compensable" or "human".'
        found.append(Problem("/recovery", "A tool that writes is not replayable.", mend))
    if writes and c["recovery"] == "idempotent" and c["idempotency"] == "none":
        mend = 'Set idempotency to "key", "epoch" or "natural", or choose another recovery.'
        found.append(Problem("/idempotency", "An idempotent tool says where its idempotency lives.", mend))
    if c["recovery"] == "query" and c["query"] is None:
        mend = 'Name the tool that looks an operation up, as "name@version".'
        found.append(Problem("/query", "Recovery by query needs a query tool.", mend))
    if c["recovery"] == "compensable" and c["compensation"] is None:
        mend = 'Name the tool that undoes the effect, as "name@version".'
        found.append(Problem("/compensation", "A compensable tool needs a compensation.", mend))
    if c["lookup"] is not None and c["query"] is None:
        found.append(Problem("/lookup", "A lookup says how the query tool is asked, and there is none.", "Name it."))
    try:
        compile_lookup(c["lookup"])
    except InvalidExpression as problem:
        mend = problem.remediation or "Correct the expression."
        found.append(Problem(problem.where or "/lookup", problem.detail, mend))
    found += _present_problems(c, writes)
    found += _proof_problems(c, writes)
    if c["serial"] is not None:
        mend = "Remove it, or name only properties of input_schema in braces."
        named, known = set(re.findall(r"\{([^{}]*)\}", c["serial"])), set(c["input_schema"].get("properties", {}))
        if not writes or named - known or "{" in re.sub(r"\{[^{}]*\}", "", c["serial"]):
            found.append(Problem("/serial", "A state is what a write changes, named by its arguments.", mend))
    if not writes and c["compensation"] is not None:
        found.append(Problem("/compensation", "A tool without effect has nothing to compensate.", "Remove it."))
    return found


def _present_problems(c: dict[str, Any], writes: bool) -> list[Problem]:
    """What is looked at before a call is the target of a write, by another tool, which reads it."""
    found: list[Problem] = []
    if c["target_version"] is None:
        return found
    if not writes:
        detail = "A tool without effect has no target whose version matters."
        found.append(Problem("/target_version", detail, "Remove it."))
    named = c["target_version"]["tool"]
    if re.fullmatch(REFERENCE_PATTERN, named) is None or named == f"{c['name']}@{c['version']}":
        mend = 'Name it as "name@version".'
        found.append(Problem("/target_version/tool", "Another tool reads the target's version.", mend))
    try:
        compile_present(c["target_version"])
    except InvalidExpression as problem:
        mend = problem.remediation or "Correct the expression."
        found.append(Problem(problem.where or "/target_version", problem.detail, mend))
    return found


def _proof_problems(c: dict[str, Any], writes: bool) -> list[Problem]:
    """What proves an effect is asked of a write; only a tool that can be asked shows it in a query's answer."""
    declared = c["success_evidence"]
    if declared is None:
        return []
    found: list[Problem] = []
    if not writes:
        found.append(Problem("/success_evidence", "A tool without effect has nothing to prove.", "Remove it."))
    if declared.get("from") == "query" and c["query"] is None:
        mend = 'Name the tool that is asked as "query", or look for the evidence in the answer itself.'
        found.append(Problem("/success_evidence/from", "There is no query whose answer could prove it.", mend))
    try:
        compile_proof(declared)
    except InvalidExpression as problem:
        mend = problem.remediation or "Correct the expression."
        found.append(Problem("/success_evidence/holds", problem.detail, mend))
    return found
