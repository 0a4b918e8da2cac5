"""What everybody else notices of a bulk repair: normal work beside it, and the proof that every item ended once."""

from __future__ import annotations

import uuid
from typing import Any

from repair.actions.bulk import MOST_CASES, order_bulk, prepare_bulk
from repair.law import CARRIED_OUT, DONE_ALL, RECORD_SUCCESS, RESOLVED, RUNNING
from repair.models import BulkItem, BulkRepair, Case, Entry
from runtime.kernel.actor import Actor
from runtime.management.bench.figures import line, percentile
from runtime.management.bench.scene import NOOP, Scene
from runtime.management.bench.stack import wait_until, workers
from runtime.management.bench.times import WARM, one_step, until_body
from runtime.management.bench.tool import Marks, books_path
from runtime.store.tx import tenant_tx
from runtime.tools.registry import register_tool

PATIENCE_SECONDS = 600.0
_MODULE = "runtime.management.bench.tool"
_BOOKS = {
    "name": "bench.books",
    "version": 1,
    "adapter": "python",
    "config": {"callable": f"{_MODULE}:books"},
    "input_schema": {"type": "object"},
    "side_effect": "none",
    "recovery": "replayable",
    "runs": "inline",
}
# Its keys are kept for no time, so a "not found" says nothing and a person is asked at once.
_LOSE = {
    "name": "bench.lose",
    "version": 1,
    "adapter": "python",
    "config": {"callable": f"{_MODULE}:lose"},
    "input_schema": {"type": "object"},
    "side_effect": "write",
    "recovery": "query",
    "query": "bench.books@1",
    "lookup": {
        "reference": "'B-' + operation.business_key",
        "result": {"booked": {"$": "operation.business_key"}},
        "consistent_after_s": 0,
        "retention_s": 0.001,
    },
    "retry": {"max_attempts": 1},
}
_NODES: list[dict[str, Any]] = [
    {"id": "pay", "kind": "tool", "tool": "bench.lose@1"},
    {"id": "tell", "kind": "tool", "tool": NOOP, "after": ["pay"]},
]


def bulkrepair(options: dict[str, Any]) -> dict[str, Any]:
    """W2 of normal work while ``--fill`` open cases, at most 1,000, are repaired at ``--per-minute``, in ms.

    Writes whose answers are lost open the cases; then the tool knows each key, and each success is recorded by its
    word, which lets the run go on to its end. ``alone_p50`` and ``alone_p95`` are W2 before that, beside nothing.
    Raises RuntimeError when the bulk repair stops by itself, or an item did not end exactly once.
    """
    cases, scene = min(options["fill"], MOST_CASES), Scene.make()
    for contract in (_BOOKS, _LOSE):
        register_tool(actor=scene.actor, contract=contract)
    scene.register("one", one_step("bench.mark_thread@1"))
    scene.register("lost", _NODES)
    books_path().unlink(missing_ok=True)
    try:
        with Marks() as marks, workers(options["workers"], running=options["workers_running"]):
            scene.submit("lost", cases)
            wait_until(lambda: _open(scene) == cases, PATIENCE_SECONDS, f"{cases} open cases", 0.2)
            own = [until_body(scene, marks, f"A{i}") for i in range(-WARM, options["samples"] or 100)][WARM:]
            books_path().touch()
            bulk_id = _order(scene.member("oncall"), options["per_minute"])
            beside = [until_body(scene, marks, "B0")]
            while _state(scene, bulk_id) == RUNNING:
                beside.append(until_body(scene, marks, f"B{len(beside)}"))
            scene.finish(60.0)
    finally:
        books_path().unlink(missing_ok=True)
    seconds = _prove(scene, bulk_id, cases)
    work = f"W2 beside a bulk repair of {cases} cases at {options['per_minute']} a minute"
    return line(
        "bulkrepair", work, "ms", beside, max=max(beside), alone_p50=percentile(own, 50),
        alone_p95=percentile(own, 95), alone_n=len(own), items=cases, ended_once=cases, items_per_s=cases / seconds,
        workers=options["workers"],
    )  # fmt: skip


def _open(scene: Scene) -> int:
    with tenant_tx(scene.actor.tenant_id):
        return Case.objects.exclude(state=RESOLVED).count()


def _order(actor: Actor, per_minute: int) -> uuid.UUID:
    said = prepare_bulk(
        actor=actor, resolution=RECORD_SUCCESS, filter={"tool": "bench.lose@1"}, reason="the books are open again",
        per_minute=per_minute,
    )  # fmt: skip
    bulk_id = uuid.UUID(said["bulk_id"])
    order_bulk(actor=actor, bulk_id=bulk_id, expected_version=said["version"])
    return bulk_id


def _state(scene: Scene, bulk_id: uuid.UUID) -> str:
    with tenant_tx(scene.actor.tenant_id):
        return str(BulkRepair.objects.values_list("state", flat=True).get(id=bulk_id))


def _prove(scene: Scene, bulk_id: uuid.UUID, cases: int) -> float:
    """Return the seconds the bulk repair took. Raises RuntimeError unless every item ended once, and so its run."""
    with tenant_tx(scene.actor.tenant_id):
        bulk = BulkRepair.objects.get(id=bulk_id)
        items = list(BulkItem.objects.filter(bulk_id=bulk_id).values_list("case_id", "state"))
        ended = list(Entry.objects.filter(type="resolved").values_list("case_id", flat=True))
    found = {
        "state": bulk.state,
        "why": bulk.why_state,
        "carried out": sum(state == CARRIED_OUT for _case, state in items),
        "cases resolved": len(set(ended)),
        "resolutions": len(ended),
        "sent once and succeeded": scene.rows("bench_operations")[0],
    }
    if [*found.values()] != [DONE_ALL, "", cases, cases, cases, (cases, cases)]:
        raise RuntimeError(f"Of {cases} cases: {found}")
    scene.prove_ends()
    assert bulk.started_at is not None
    assert bulk.finished_at is not None
    return (bulk.finished_at - bulk.started_at).total_seconds()
