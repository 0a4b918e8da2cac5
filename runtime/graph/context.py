"""What expressions may read: one shape for steps, approvals and success conditions."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

from runtime.graph.templates import Template
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, InvalidExpression
from runtime.machine.frame import Frame
from runtime.machine.rows import RunState
from runtime.store.arrays import arrays


def expression_context(
    *,
    run_id: uuid.UUID,
    task_id: uuid.UUID,
    value: Any,
    name: str,
    goal: str,
    data_time: datetime | None,
    created_by: str,
    nodes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return {input, nodes, run, task}; ``value`` is the task's input, ``nodes`` {id: {status, error, output}}."""
    return {
        "input": value,
        "nodes": nodes,
        "run": {"id": str(run_id), "task_id": str(task_id)},
        "task": {
            "id": str(task_id),
            "name": name,
            "goal": goal,
            "data_time": data_time.isoformat() if data_time else None,
            "created_by": created_by,
        },
    }


def run_context(frame: Frame, run: RunState, refs: Iterable[str]) -> dict[str, Any]:
    """Read the context of a run under lock; results that this transaction brings itself come from ``frame.outputs``."""
    _run_id, task_input, task_id, name, goal, data_time, _retry, created_by, *_more = frame.tx.rows(
        "task_inputs", ([run.id],)
    )[0]
    nodes: dict[str, Any] = {}
    wanted = [(run.id, ref) for ref in refs]
    for _run, node, status, error, output, _kept in frame.tx.rows("outputs_at", arrays("ut", wanted)) if wanted else ():
        step = run.steps.get(node)
        found = frame.outputs.get((run.id, node), output)
        nodes[node] = {
            "status": step.status if step else status,
            "error": step.error if step else error,
            "output": orjson.loads(bytes(found)) if found is not None else None,
        }
    return expression_context(
        run_id=run.id,
        task_id=task_id,
        value=orjson.loads(bytes(task_input)),
        name=name,
        goal=goal,
        data_time=data_time,
        created_by=created_by,
        nodes=nodes,
    )


def unmet_success(frame: Frame, run: RunState) -> str | None:
    """Return why the workflow's success condition does not hold, or None when it holds or none is declared (B1.4)."""
    success = run.plan.success
    if success is None:
        return None
    try:
        held = success.evaluate(run_context(frame, run, success.node_refs))
    except InvalidExpression as problem:
        return f"The success condition does not evaluate: {problem.detail}"
    return None if held is True else f"The success condition does not hold: {success.text}"


def finished_outputs(frame: Frame, runs: Iterable[RunState]) -> dict[uuid.UUID, dict[str, Any]]:
    """Render the ``output`` and the ``state`` of runs that end; return run → what its last event says of them.

    Outputs are kept as artifacts, states become those of the tasks, in this transaction. The event has
    ``output_sha256``, the artifact's id and the ``state_sha256``, or ``output_error`` and ``state_error``: what does
    not evaluate (a node that was skipped) or is larger than it may be takes nothing from what was done, and the task
    keeps the State it had. A run without either template is left out.
    """
    outputs: dict[uuid.UUID, tuple[bytes, bytes]] = {}
    states: list[tuple[uuid.UUID, str]] = []
    said: dict[uuid.UUID, dict[str, Any]] = {}
    for run in runs:
        templates = [one for one in (run.plan.output, run.plan.state) if one is not None]
        if not templates:
            continue
        context = run_context(frame, run, frozenset().union(*(one.refs for one in templates)))
        payload: dict[str, Any] = {}
        said[run.id] = {"payload": payload}
        if (output := _rendered(run.plan.output, context, payload, "output")) is not None:
            outputs[run.id] = digest(output), output
        if (state := _rendered(run.plan.state, context, payload, "state")) is not None:
            payload["state_sha256"] = digest(state).hex()
            states.append((run.task_id, state.decode()))
    stored = frame.store(dict(outputs.values())) if outputs else {}
    for run_id, (sha256, _content) in outputs.items():
        said[run_id]["payload"]["artifact_id"] = str(stored[sha256])
        said[run_id]["output_sha256"] = sha256
    if states:
        # No two transactions write one task's: a task has one run at a time, and its row is locked here.
        frame.tx.send("set_task_states", arrays("ut", states))
    return said


def _rendered(template: Template | None, context: dict[str, Any], payload: dict[str, Any], what: str) -> bytes | None:
    """Return the canonical bytes of ``what``; None, and why in ``payload``, when there is none."""
    if template is None:
        return None
    limits = conf()
    try:
        value = template.render(context)
        if what == "state" and not isinstance(value, dict):
            raise InvalidExpression("The state is no object.")
        most = limits.max_result_bytes if what == "output" else limits.inline_result_bytes
        return canonical_bytes(value, max_bytes=most)
    except (InvalidExpression, BadInput) as problem:
        payload[f"{what}_error"] = problem.detail
        return None
