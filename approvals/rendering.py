"""What a person is shown: the payload and the calls that would be made, rendered as the worker will render them.

The same code prepares a call here and in the worker, from the same outputs, so the hashes agree exactly or the call
holds. Everything shown is one canonical byte string; its hash is what a decision quotes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import psycopg
from django.db import DatabaseError

from approvals.gating import gated_nodes
from approvals.law import RISKS
from approvals.risk import effect_of, judge
from runtime.actions.references import keep_references
from runtime.graph.plan import NodePlan
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import QuarterdeckError
from runtime.machine.rows import RunState, StepState
from runtime.queries.base import parsed
from runtime.store.arrays import arrays
from runtime.store.tx import Tx
from runtime.tools.contract import ToolContract
from runtime.tools.registry import tool_of
from runtime.worker.execute import Prepared, begin, context_of
from runtime.worker.work import Claimed, TaskFacts

MAX_EVIDENCE = 50
# What an approval node answers with once it is granted: what comes after it may read that already.
GRANTED = {"status": "succeeded", "output": {"approved": True}, "error": None}


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it would be made."""

    node: str
    tool: str
    contract_sha256: bytes
    business_key: str
    arguments: Any
    arguments_sha256: bytes
    contract: ToolContract
    # Where a person edited it: what is sent instead, and the hash of what the workflow itself would send.
    edited: bytes | None = None
    prepared_sha256: bytes | None = None
    # Where it asks again with a person's edit: what the workflow itself would send.
    original: Any = None

    def shown(self) -> dict[str, Any]:
        """Return what a person sees of it."""
        told: dict[str, Any] = {} if self.original is None else {"original": self.original}
        return {
            **told,
            "node": self.node,
            "tool": self.tool,
            "business_key": self.business_key,
            "arguments": self.arguments,
            "effect": effect_of(self.contract),
        }


@dataclass(slots=True)
class Rendered:
    """Everything a request is bound to. ``problem`` says why it cannot be approved.

    ``requested_by`` had the run made; ``submitted_by``, where it is somebody else, submitted its task, and is the
    requester that a policy's rules read.
    """

    requested_by: str
    title: str
    goal: str = ""
    shown: bytes = b""
    payload: Any = None
    calls: list[Call] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    target: str | None = None
    target_version: str | None = None
    target_was: str | None = None
    declared_risk: str = ""
    edited_by: str | None = None
    editor_id: int | None = None
    form: Any = None
    policy: dict[str, Any] | None = None
    binds_payload: bool = False
    problem: str | None = None
    submitted_by: str | None = None

    @property
    def payload_sha256(self) -> bytes:
        return digest(self.shown)

    @property
    def action_sha256(self) -> bytes:
        """The digest of what would be done: tools by contract, targets, arguments; nothing of who, why or when.

        The content that the decision is made by belongs to it, by hash (C5.3).
        """
        calls = [[c.tool, c.contract_sha256.hex(), c.business_key, c.arguments_sha256.hex()] for c in self.calls]
        what: dict[str, Any] = {"calls": calls, "target": self.target, "target_version": self.target_version}
        if self.form is not None:
            what["form"] = digest(canonical_bytes(self.form)).hex()
        if self.binds_payload:
            what["subject"] = digest(canonical_bytes(self.payload)).hex()
        if self.evidence:
            what["content"] = [one["sha256"] for one in self.evidence]
        return digest(canonical_bytes(what))

    @property
    def risk(self) -> tuple[int, list[str]]:
        """The level and the reasons."""
        return judge([call.contract for call in self.calls], self.declared_risk, self.edited_by is not None)

    def seal(self) -> None:
        """Make ``shown``, the canonical bytes of all of it. Raises QuarterdeckError when it is too large to show."""
        level, reasons = self.risk
        value: dict[str, Any] = {
            "title": self.title,
            "goal": self.goal,
            "requested_by": self.requested_by,
            "payload": self.payload,
            "calls": [call.shown() for call in self.calls],
            "risk": {"level": RISKS[level], "reasons": reasons},
        }
        if self.target is not None:
            value["target"] = {"id": self.target, "version": self.target_version}
            if self.target_was is not None:
                value["target"]["was"] = self.target_was
        if self.policy is not None:
            value["policy"] = self.policy
        if self.form is not None:
            value["form"] = self.form
        if self.evidence:
            value["evidence"] = self.evidence
        if self.edited_by is not None:
            value["edited_by"] = self.edited_by
        shown = canonical_bytes(value)
        if len(shown) > (limit := conf().max_payload_bytes):
            raise QuarterdeckError(f"What would be shown has {len(shown)} bytes; the limit is {limit}.")
        self.shown = shown

    def spoil(self, problem: str) -> None:
        """Show why it cannot be shown; nothing of it can be approved."""
        self.problem = problem
        self.calls.clear()
        self.shown = canonical_bytes({"title": self.title, "payload": None, "calls": [], "problem": problem})


def render(tx: Tx, run: RunState, step: StepState) -> Rendered:
    """Render what the held ``step`` asks for: an approval node's payload and gated calls, or a tool node's own call.

    Never raises for what a workflow's author or an upstream output did: that is told in ``problem``.
    """
    node: NodePlan = run.plan.nodes[step.node]
    asks = node.kind in ("approval", "input")
    names = [node.id] if not asks else gated_nodes(tx, run.plan, node.id) if node.kind == "approval" else []
    gated = [run.plan.nodes[name] for name in names]
    task = _task(tx, run)
    upstream = _outputs(tx, run, {ref for one in (node, *gated) for ref in one.refs})
    title = node.title if asks else f"{node.tool} in step {node.id} needs a grant"
    result = Rendered(_ordered_by(tx, run, task), title, task.goal, declared_risk=node.risk, form=node.form)
    result.submitted_by = task.created_by
    try:
        if asks:
            context = context_of(_claimed(tx, run, step, node, task, upstream))
            result.payload = node.payload.render(context) if node.payload is not None else None
            _take_target(result, node.target.render(context) if node.target is not None else None)
            result.evidence = evidence_of(tx, node.evidence.render(context) if node.evidence is not None else None)
        after = {**upstream, node.id: GRANTED} if asks else upstream
        for one in gated:
            call = _call(tx, _claimed(tx, run, step, one, task, after), required=not asks)
            if call is not None:
                result.calls.append(call if asks else _as_edited(tx, run, call, result))
        if not asks:
            _take_present(tx, run, step, result)
        result.seal()
    except QuarterdeckError as problem:
        result.spoil(f"{problem.where}: {problem.detail}" if problem.where else problem.detail)
    except (psycopg.Error, DatabaseError):
        raise
    except Exception as problem:  # whatever it is, it is this request's: the other steps' results are not undone by it
        result.spoil(f"{type(problem).__name__}: {problem}"[:500])
    return result


def _call(tx: Tx, claimed: Claimed, *, required: bool) -> Call | None:
    """Prepare a call as the worker does. One that cannot be known yet is not granted now: it will ask for itself."""
    missing = [ref for ref in claimed.node.refs if ref not in claimed.upstream]
    begun = None if missing else begin(claimed, lambda reference: tool_of(tx, reference))
    if not isinstance(begun, Prepared):
        if required:
            error = (begun.error if begun is not None else None) or {}
            raise QuarterdeckError(error.get("message") or f"The output of {', '.join(missing)} is not there.")
        return None
    if not begun.tool.contract.writes:
        return None
    return Call(
        node=claimed.node.id,
        tool=begun.tool.contract.reference,
        contract_sha256=begun.tool.contract.digest,
        business_key=claimed.business_key or "",
        arguments=orjson.loads(begun.arguments_bytes),
        arguments_sha256=begun.input_sha256,
        contract=begun.tool.contract,
    )


def _as_edited(tx: Tx, run: RunState, call: Call, result: Rendered) -> Call:
    """Return a call as people last approved it: who is asked again is shown their edit, not what it had replaced.

    The editor stays named, and stays barred where those who edit do not approve (C5.4).
    """
    asked = {
        "run": run.id,
        "node": call.node,
        "tool": call.tool,
        "contract": call.contract_sha256,
        "key": call.business_key,
        "prepared": call.arguments_sha256,
    }
    row = tx.one("approval_last_edit", asked)
    if row is None or row[0] is None:
        return call
    data = bytes(row[0])
    result.editor_id, result.edited_by = row[1], row[2]
    return replace(
        call,
        arguments=orjson.loads(data),
        arguments_sha256=digest(data),
        edited=data,
        prepared_sha256=call.arguments_sha256,
        original=call.arguments,
    )


def _take_present(tx: Tx, run: RunState, step: StepState, result: Rendered) -> None:
    """Bind a call that asks for itself to its target as it was found: in which version, and which had been approved.

    At its first ask too: what changes while people decide is then not sent on their word.
    """
    row = tx.one("approval_target_changed", (run.id, step.node))
    if row is not None:
        told = parsed(row[1])
        result.target, result.target_version, result.target_was = row[0], told["to"], told["from"]
    if step.present is not None and step.present != result.target_version:
        (call,) = result.calls
        result.target = result.target or call.contract.state(call.arguments) or step.node
        result.target_version = step.present
        result.target_was = None if result.target_was == step.present else result.target_was


def evidence_of(tx: Tx, value: Any) -> list[dict[str, Any]]:
    """Return artifact, hash, size and media type of each artifact named, whose content is kept from now on.

    Raises for one that is not there, or whose content has expired: nobody could look at it.
    """
    if value is None:
        return []
    wanted = value if isinstance(value, list) else [value]
    if len(wanted) > MAX_EVIDENCE:
        raise QuarterdeckError(f"At most {MAX_EVIDENCE} artifacts are shown as evidence.", where="/evidence")
    found = []
    for i, one in enumerate(wanted):
        try:
            row = tx.one("artifact_facts", (uuid.UUID(one["artifact_id"] if isinstance(one, dict) else one),))
        except (ValueError, TypeError, AttributeError, KeyError):
            row = None
        if row is None:
            raise QuarterdeckError("It is no artifact of this tenant.", where=f"/evidence/{i}")
        artifact_id, sha256, size, media_type = row
        facts = {"sha256": bytes(sha256).hex(), "size": size, "media_type": media_type}
        keep_references(tx, {"artifact_id": str(artifact_id), "sha256": facts["sha256"]}, f"/evidence/{i}")
        found.append({"artifact_id": str(artifact_id), **facts})
    return found


def _take_target(result: Rendered, value: Any) -> None:
    if value is None:
        return
    texts = {name: _text(value.get(name)) for name in ("id", "version")}
    limits = {"id": 500, "version": 200}
    for name, text in texts.items():
        if text is not None and (not 0 < len(text) <= limits[name] or "\x00" in text):
            raise QuarterdeckError(f"It has 1 to {limits[name]} characters and no NUL.", where=f"/target/{name}")
    result.target, result.target_version = texts["id"], texts["version"]


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else canonical_bytes(value).decode()


def _ordered_by(tx: Tx, run: RunState, task: TaskFacts) -> str:
    """Return who asks: whoever had the run made, since of a task that is run again that need not be its submitter."""
    row = tx.one("run_ordered_by", (run.id,))
    return task.created_by if row is None or row[0] is None else str(row[0])


def submitter_of(tx: Tx, run: RunState) -> str:
    """Return who submitted a run's task."""
    return _task(tx, run).created_by


def _task(tx: Tx, run: RunState) -> TaskFacts:
    _run_id, task_input, task_id, *rest = tx.rows("task_inputs", ([run.id],))[0]
    return TaskFacts(task_id, bytes(task_input), *rest)


def _outputs(tx: Tx, run: RunState, refs: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return node → status, error and output of those that have ended."""
    wanted = [(run.id, ref) for ref in refs]
    found = {}
    for _run_id, node, status, error, output, _kept in tx.rows("outputs_at", arrays("ut", wanted)) if wanted else []:
        value = orjson.loads(bytes(output)) if output is not None else None
        if status in ("succeeded", "failed", "killed", "skipped", "mark_successed"):
            found[node] = {"status": status, "error": error, "output": value}
    return found


def _claimed(
    tx: Tx, run: RunState, step: StepState, node: NodePlan, task: TaskFacts, upstream: dict[str, dict[str, Any]]
) -> Claimed:
    """Return what a worker would hold when it runs ``node``; only its expressions are asked here."""
    assert tx.tenant_id is not None
    assert run.now is not None
    return Claimed(
        tenant_id=tx.tenant_id,
        run_id=run.id,
        step_id=step.id,
        node=node,
        plan=run.plan,
        execution_version=step.execution_version,
        attempt=1,
        owner_epoch=0,
        deadline=run.deadline,
        now=run.now,
        task=task,
        upstream={ref: upstream[ref] for ref in node.refs if ref in upstream},
    )
