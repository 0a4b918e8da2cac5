"""Asking a tool by key what became of an operation: read-only, in no transaction, bounded in time (B4.4, C3.6).

``worker/asking.py`` lets a question out, as any other external call; what follows from a finding is decided elsewhere.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from runtime.kernel.canonical import digest
from runtime.kernel.errors import NotFound, QuarterdeckError
from runtime.store.tx import Tx
from runtime.tools.calls import call, prepare
from runtime.tools.contract import ToolContract, check_contract
from runtime.tools.lookup import reading_of
from runtime.tools.outcome import CallRequest
from runtime.tools.proof import NOT_PROVED, place_of, why_not_proved
from runtime.tools.redact import redact
from runtime.tools.registry import RegisteredTool, tool_of
from runtime.tools.validation import check_output

QUERY_SECONDS = 20.0

Kind = Literal["applied", "partial", "not_found", "in_progress", "conflicts", "unreachable", "held"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the tool said about an operation.

    ``kind``: **applied**; **partial**: a part of it; **not_found**; **in_progress** (also what is said to be there
    without the evidence that its contract asks for: ``code`` not_proved); **conflicts**: under the key stands another
    effect than the one intended; **unreachable**: no answer that can be read, ``error_class`` and ``code`` say why
    (``no_query``: its contract names no query); **held**: it was not asked yet, ``code`` says what keeps the question
    back (``stopped``, ``unsigned``, ``breaker``, ``limit``) and ``decisive_at`` when that is over, None when nobody
    knows. ``result`` are the canonical bytes of the step's output when applied, None when the answer is none by
    the tool's output schema. Not found proves absence only when ``proves`` is true: the call was over
    ``consistent_after_s`` ago and the tool's retention has not passed; ``decisive_at`` is when it will be able to,
    None when never.
    """

    kind: Kind
    asked: str
    at: datetime
    message: str = ""
    error_class: str | None = None
    code: str | None = None
    external_ref: str | None = None
    result: bytes | None = None
    answer_sha256: bytes | None = None
    proves: bool = False
    decisive_at: datetime | None = None
    seconds: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Return what events, cases and pages show of it; no payload."""
        shown = {
            "finding": self.kind,
            "asked": self.asked,
            "at": self.at.isoformat(),
            "message": self.message,
            "code": self.code,
            "external_ref": self.external_ref,
            "answer_sha256": self.answer_sha256.hex() if self.answer_sha256 else None,
            "proves_absence": self.proves if self.kind == "not_found" else None,
        }
        return {name: value for name, value in shown.items() if value not in (None, "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An operation as its tool is asked about it. ``over_at``: its call surely sends nothing any more since then.

    ``finding`` is what the last question found, None before the first. ``unsigned``: the query tool may not be called
    before its samples are signed.
    """

    tenant_id: uuid.UUID
    operation_id: uuid.UUID
    business_key: str
    run_id: uuid.UUID
    step_id: uuid.UUID
    epoch: int
    arguments: dict[str, Any]
    external_ref: str | None
    intended_at: datetime
    sent_at: datetime | None
    over_at: datetime | None
    now: datetime
    tool: ToolContract
    query: ToolContract | None
    unsigned: bool = False
    workflow: str = ""
    finding: str | None = None
    asked_at: float = field(default_factory=time.monotonic)

    def clock(self) -> datetime:
        """Return the database's clock as of now, told by our own since it was read."""
        return self.now + timedelta(seconds=time.monotonic() - self.asked_at)


def read_question(tx: Tx, operation_id: uuid.UUID) -> Question:
    """Read what asking about an operation needs. Raises NotFound."""
    rows = tx.dicts("operation_question", (operation_id,))
    if not rows:
        raise NotFound("There is no operation of that id.")
    row = rows[0]
    tool = check_contract(json.loads(bytes(row.pop("contract"))), builtin=True)
    assert tx.tenant_id is not None
    query = _query_of(tx, tool.query)
    return Question(
        tenant_id=tx.tenant_id,
        tool=tool,
        query=query.contract if query is not None else None,
        unsigned=query is not None and query.unsigned,
        arguments=json.loads(bytes(row.pop("payload"))),
        over_at=_over_at(tool, row),
        **{name: row[name] for name in _PLAIN},
    )


def _query_of(tx: Tx, reference: str | None) -> RegisteredTool | None:
    """Return the tool that is asked, None where there is none: then a person decides."""
    try:
        return tool_of(tx, reference) if reference else None
    except QuarterdeckError:
        return None


_PLAIN = "operation_id business_key run_id step_id epoch external_ref intended_at sent_at now workflow finding".split()
# The heartbeat has seen the process gone. A lost lease, or a worker that is being stopped, proves nothing.
_SEEN_TO_END = frozenset({"process_died"})


def _over_at(tool: ToolContract, row: dict[str, Any]) -> datetime | None:
    """Return since when the call surely sends nothing any more, None while it may (engine.md 13)."""
    if row["session_ended_at"] is not None and row["end_reason"] in _SEEN_TO_END:
        return row["session_ended_at"]
    # Its owner reported the call as over. A function that overran its time may still run in a thread of that process.
    reported = row["outcome"] not in (None, "lost", "killed")
    lingers = tool.adapter == "python" and tool.runs == "thread"
    return row["finished_at"] if reported and not lingers else None


def ask(question: Question, *, seconds: float = QUERY_SECONDS) -> Finding:
    """Ask the tool about an operation; never raises."""
    query = question.query
    if query is None:
        return Finding("unreachable", "", question.clock(), "Its contract names no query.", "policy", "no_query")
    if query.writes:
        return _unreachable(question, "policy", "query_writes", "The query tool writes; it is not called.")
    reading, started = reading_of(question.tool), time.monotonic()
    context = {"operation": _operation(question), "arguments": question.arguments}
    try:
        arguments = reading.input.render(context)
        result = call(
            CallRequest(
                tool=query,
                arguments=arguments,
                arguments_bytes=prepare(query, arguments),
                operation_id=str(question.operation_id),
                business_key=question.business_key,
                epoch=question.epoch,
                tenant_id=str(question.tenant_id),
                run_id=str(question.run_id),
                step_id=str(question.step_id),
                deadline_monotonic=started + min(seconds, query.timeout_s),
            )
        )
        if result.kind != "ok":
            return _unreachable(question, result.error_class or "network", result.code or "no_answer", result.message)
        return _read(question, {**context, "answer": result.value}, result.value_bytes or b"", started)
    except QuarterdeckError as problem:
        return _unreachable(question, "protocol", "unreadable", problem.detail)
    except Exception as problem:  # a poisoned answer is an answer nobody can read, not the end of a duty
        return _unreachable(question, "internal", "unreadable", f"{type(problem).__name__}: {problem}")


def _operation(question: Question) -> dict[str, Any]:
    return {
        "id": str(question.operation_id),
        "business_key": question.business_key,
        "external_ref": question.external_ref,
        "epoch": question.epoch,
    }


def _unreachable(question: Question, error_class: str, code: str, message: str) -> Finding:
    asked = question.query.reference if question.query is not None else ""
    return Finding("unreachable", asked, question.clock(), redact(message), error_class, code)


def _read(question: Question, context: dict[str, Any], raw: bytes, started: float) -> Finding:
    """Sort a readable answer by the contract's lookup. Raises InvalidExpression when it does not say what it must."""
    reading = reading_of(question.tool)
    assert question.query is not None
    common: dict[str, Any] = {"answer_sha256": digest(raw), "seconds": time.monotonic() - started}
    asked, at = question.query.reference, question.clock()
    if reading.test("in_progress", context, otherwise=False):
        return Finding("in_progress", asked, at, **common)
    if not reading.test("applied", context, otherwise=False):
        decisive_at = _decisive_at(question)
        proves = decisive_at is not None and decisive_at <= question.now
        return Finding("not_found", asked, at, proves=proves, decisive_at=decisive_at, **common)
    if not reading.test("matches", context, otherwise=True):
        message = "Under the key stands another effect than the one intended."
        return Finding("conflicts", asked, at, message, external_ref=_reference(question, context), **common)
    kind: Kind = "partial" if reading.test("partial", context, otherwise=False) else "applied"
    result, message = None, ""
    rendered: Any = None
    try:
        if kind == "applied":
            rendered = reading.result.render(context)
            result = check_output(question.tool, rendered)
    except QuarterdeckError as problem:
        message = redact(f"The effect is there, but its result cannot be used: {problem.detail}")
    if kind == "applied" and (why := _not_proved(question, context, rendered, usable=result is not None)) is not None:
        # Said to be there, and not shown: asked again, and in the end a person's.
        return Finding("in_progress", asked, at, why, code=NOT_PROVED, **common)
    return Finding(kind, asked, at, message, external_ref=_reference(question, context), result=result, **common)


def _not_proved(question: Question, context: dict[str, Any], rendered: Any, *, usable: bool) -> str | None:
    """Return why a query's answer is no success by the contract's ``success_evidence``; None when it is one."""
    place = place_of(question.tool)
    if place == "query":
        return why_not_proved(question.tool, "query", context)
    if place == "answer" and not usable:
        return "The answer cannot be used, so it shows no evidence of the effect."
    return why_not_proved(question.tool, "answer", {**context, "answer": rendered})


def _reference(question: Question, context: dict[str, Any]) -> str | None:
    expression = reading_of(question.tool).reference
    value = expression.evaluate(context) if expression is not None else None
    return redact(str(value), 500) if value is not None else None


def _decisive_at(question: Question) -> datetime | None:
    """Return from when "not found" proves absence, None when it never will (C3.6).

    The contract must say after how long its answers are consistent; counted from when the call was over, or, while its
    process may still live, from when it was sent: what such a one sends later is another question (engine.md 13).
    """
    lookup = question.tool.lookup or {}
    if "consistent_after_s" not in lookup or question.sent_at is None:
        return None
    since = question.over_at or question.sent_at
    at = since + timedelta(seconds=lookup["consistent_after_s"])
    kept = lookup.get("retention_s")
    if kept is not None and max(at, question.now) > question.intended_at + timedelta(seconds=kept):
        return None
    return at
