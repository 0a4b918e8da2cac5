"""What a step was called with (A9.5, C1.2): stored for calls with an effect, made again for the others.

A call that only reads leaves the hash of its arguments. They follow from the workflow version, the task's input and the
outputs before them, which never change; so they are rendered again, and shown only where they have that very hash.
"""

from __future__ import annotations

import uuid
from typing import Any

import orjson

from runtime.access import verbs as v
from runtime.access.authorize import may
from runtime.graph.context import expression_context
from runtime.graph.plans import plan_of
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import QuarterdeckError
from runtime.queries.base import found, hexed, reading
from runtime.store.tx import Tx

# The largest output before it that is read to make a step's arguments again.
LARGEST_READ = 5_000_000


class _Unreadable(Exception):
    """What the arguments were made from is not there any more, or is too large to be read for it."""


def read_arguments(*, actor: Actor, step_id: uuid.UUID, attempt: int | None = None) -> dict[str, Any]:
    """Return {step_id, attempt, input_sha256, source, why_not, redacted} and, with ``payload.read``, ``input``.

    Of the newest attempt that has a hash, or of ``attempt``. ``source`` is ``operation`` (stored when the call was
    sent) or ``recomputed`` (made again, the hash agrees); else ``why_not`` says why nothing can be shown:
    ``not_recorded`` (it called nothing) or ``not_the_same`` (what can be made now has another hash). Raises NotFound.
    Verb ``run.read``.
    """
    with reading(actor, v.RUN_READ) as tx:
        rows = tx.dicts("read_step", (step_id,))
        step = found(rows[0] if rows else None, "step")
        called = tx.one("read_attempt_input", {"run": step["run_id"], "step": step_id, "attempt": attempt})
        shown = may(actor, v.PAYLOAD_READ)
        body, source = _body(tx, step, called) if called is not None and shown else (None, None)
    answer = {
        "step_id": step_id,
        "attempt": called[0] if called else attempt,
        "input_sha256": hexed(called[1]) if called else None,
        "source": source,
        "why_not": "not_recorded" if called is None else "not_the_same" if shown and body is None else None,
        "redacted": not shown,
    }
    return answer if body is None else {**answer, "input": orjson.loads(body)}


def _body(tx: Tx, step: dict[str, Any], called: tuple[Any, ...]) -> tuple[bytes | None, str | None]:
    """Return the canonical bytes with the hash of the call, and where they are from."""
    _number, sha256, started_at = called
    stored = tx.one("read_payload_by_hash", (step["run_id"], sha256))
    if stored is not None:
        return bytes(stored[0]), "operation"
    try:
        body = canonical_bytes(_render(tx, step, started_at))
    except (QuarterdeckError, _Unreadable, ValueError):
        return None, None
    return (body, "recomputed") if digest(body) == bytes(sha256) else (None, None)


def _render(tx: Tx, step: dict[str, Any], started_at: Any) -> Any:
    """Return the arguments as the step's worker rendered them. Raises what rendering does, _Unreadable."""
    node = plan_of(tx, step["workflow_version_id"]).nodes[step["node"]]
    undone = _undone(tx, step["id"]) if node.kind in ("compensation", "compensation_check") else None
    if node.input is None:
        return undone["arguments"] if undone is not None and node.kind == "compensation" else {}
    if node.input.part is None:
        return node.input.render({})
    _run, task_input, task_id, name, goal, data_time, _retry, created_by, *_more = tx.rows(
        "task_inputs", ([step["run_id"]],)
    )[0]
    context = expression_context(
        run_id=step["run_id"],
        task_id=task_id,
        value=orjson.loads(bytes(task_input)),
        name=name,
        goal=goal,
        data_time=data_time,
        created_by=created_by,
        nodes=_nodes(tx, step["run_id"], sorted(node.input.refs), started_at),
    )
    return node.input.render(context if undone is None else {**context, "operation": undone})


def _nodes(tx: Tx, run_id: uuid.UUID, refs: list[str], at: Any) -> dict[str, Any]:
    """Return what the nodes that it reads had come to when it began, in the execution versions of then."""
    nodes = {}
    wanted = {"run": run_id, "nodes": refs, "at": at, "most": LARGEST_READ}
    for node, status, error, output, kept in tx.rows("outputs_then", wanted) if refs else ():
        if kept and output is None:
            raise _Unreadable
        nodes[node] = {
            "status": status,
            "error": orjson.loads(error) if isinstance(error, str | bytes) else error,
            "output": orjson.loads(bytes(output)) if output is not None else None,
        }
    return nodes


def _undone(tx: Tx, step_id: uuid.UUID) -> dict[str, Any]:
    """Return the effect that a step undoes, or checks, as its expressions read it."""
    rows = tx.rows("undo_facts", ([step_id],))
    if not rows:
        raise _Unreadable
    _step, _tool, _key, _deadline, operation_id, business_key, arguments, response, external_ref = rows[0]
    return {
        "id": str(operation_id),
        "business_key": business_key,
        "arguments": orjson.loads(bytes(arguments)),
        "output": orjson.loads(bytes(response)) if response is not None else None,
        "external_ref": external_ref,
    }
