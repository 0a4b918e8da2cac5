"""Letting a question about an operation out: it is an external call like any other (C5.5, C3.2, B4.2).

Emergency stops, the tenant's policy, the query tool's own limits and its breakers are heard before it is asked. What
they keep back is a finding too, so that it is seen where the others are. Bounds of the tenant, of a workflow and of the
installation count the work of steps: a full house must not keep anybody from learning what became of an effect.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Literal

import structlog

from runtime.store.arrays import arrays
from runtime.store.tx import RETRYABLE, Tx, tenant_tx
from runtime.tools.query import QUERY_SECONDS, Finding, Question, ask, read_question
from runtime.worker import stops
from runtime.worker.circuits import tell_question
from runtime.worker.gates import Gates
from runtime.worker.permits import refused_by_policy

log = structlog.get_logger(__name__)


def query_operation(*, tenant_id: uuid.UUID, operation_id: uuid.UUID, seconds: float = QUERY_SECONDS) -> Finding:
    """Ask an operation's tool about it and return what it said, or what kept the question back.

    Moves no operation and takes about ``seconds`` at most. Call it outside of a transaction. Raises NotFound when there
    is no such operation; whatever the tool does is a finding.
    """
    return ask_about(tenant_id, operation_id, seconds)[1]


def ask_about(
    tenant_id: uuid.UUID, operation_id: uuid.UUID, seconds: float = QUERY_SECONDS
) -> tuple[Question, Finding]:
    """Return the question about an operation and the finding. Raises NotFound."""
    with tenant_tx(tenant_id) as tx:
        question = read_question(tx, operation_id)
        gates = Gates(tx.rows("gates"), tx)
        kept = _kept_back(tx, question, gates, seconds)
    if kept is not None:
        return question, kept
    finding = ask(question, seconds=seconds)
    query = question.query
    if query is not None and not query.writes:
        error_class = finding.error_class if finding.kind == "unreachable" else None
        troubled = any(one.tool == query.reference for one in gates.breakers)  # an open one too: this was the probe
        try:
            tell_question(tenant_id, query.reference, error_class, troubled=troubled)
        except RETRYABLE:
            log.info("a breaker is told nothing: others hold its row", tool=query.reference)
    return question, finding


def _kept_back(tx: Tx, question: Question, gates: Gates, seconds: float) -> Finding | None:
    """Return why the question is not asked now; None when it may be. Then it is counted, or is the breaker's probe."""
    query = question.query
    if query is None or query.writes:
        return None  # nothing is called: the finding says so
    stop = stops.first_of(stops.own(tx), question.tenant_id, query.reference, question.workflow)
    if stop is not None:
        name = f"{stop.scope} {stop.name}".rstrip()
        return _held(question, "stopped", f"An emergency stop ({name}) keeps the question back.", stop.until)
    if question.unsigned:
        return _held(question, "unsigned", f"The samples of {query.reference} are not signed for its contract.", None)
    if (refusal := refused_by_policy(gates.policy, query)) is not None:
        code, detail = refusal
        return Finding("unreachable", query.reference, question.clock(), detail, "policy", code)
    return _bounded(tx, question, gates, seconds)


def _bounded(tx: Tx, question: Question, gates: Gates, seconds: float) -> Finding | None:
    """Ask the tool's limits, then its breakers; the rows are locked in that order."""
    assert question.query is not None
    tool = question.query.reference
    shut = [one for one in gates.breakers if one.tool == tool and one.shut]
    if any(not one.probing for one in shut):
        return _held(question, "breaker", f"{tool} keeps failing and is left alone for now.", None)
    limits = {one.id: one for one in gates.limits if one.scope == "tool" and one.covers(tool, "")}
    if limits:
        for id, used, allowance in tx.rows("lock_limits", arrays("u", [(id,) for id in sorted(limits)])):
            limits[id].used, limits[id].allowance = used, allowance
        if any(one.full for one in limits.values()):
            return _held(question, "limit", f"The limit of {tool} is reached.", None)
    if shut:
        won = tx.rows("probe_breakers", (2 * seconds, *arrays("u", [(one.id,) for one in shut])))
        if len(won) < len(shut):
            return _held(question, "breaker", f"{tool} keeps failing; another call is trying it.", None)
    if rated := [(one.id, 0, 1) for one in limits.values() if one.rated]:
        tx.send("count_tokens", arrays("uii", sorted(rated)))
    return None


def _held(
    question: Question, code: Literal["stopped", "unsigned", "breaker", "limit"], message: str, until: datetime | None
) -> Finding:
    asked = question.query.reference if question.query is not None else ""
    return Finding("held", asked, question.clock(), message, "policy", code, decisive_at=until)
