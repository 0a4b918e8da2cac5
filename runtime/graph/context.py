"""What expressions may read: one shape for steps, approvals and success conditions."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import orjson

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
    """Render the ``output`` of runs that end and keep it as artifacts; return run → what its last event says of it.

    That is ``output_sha256`` and the artifact's id, or ``output_error``: an output that does not evaluate (a node that
    was skipped) or is larger than an artifact may be takes nothing from what was done. A run without a template is left
    out.
    """
    rendered: dict[uuid.UUID, tuple[bytes, bytes]] = {}
    said: dict[uuid.UUID, dict[str, Any]] = {}
    for run in runs:
        if (template := run.plan.output) is None:
            continue
        try:
            value = template.render(run_context(frame, run, template.refs))
            content = canonical_bytes(value, max_bytes=conf().max_result_bytes)
        except (InvalidExpression, BadInput) as problem:
            said[run.id] = {"payload": {"output_error": problem.detail}}
        else:
            rendered[run.id] = digest(content), content
    stored = frame.store(dict(rendered.values())) if rendered else {}
    for run_id, (sha256, _content) in rendered.items():
        said[run_id] = {"payload": {"artifact_id": str(stored[sha256])}, "output_sha256": sha256}
    return said
