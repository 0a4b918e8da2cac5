"""What approvers wait for: the inbox over many pending requests, a decision's commit, many deciding at once."""

from __future__ import annotations

import threading
import time
import uuid
from typing import Any

from approvals.actions.decide import decide_request
from approvals.queries import list_requests
from runtime.kernel.actor import Actor
from runtime.kernel.errors import Conflict
from runtime.management.bench.browser import fetch, sign_in, web
from runtime.management.bench.figures import line, percentile
from runtime.management.bench.scene import Scene
from runtime.tools.registry import register_tool

APPROVERS = 20
_NODES = [
    {"id": "ask", "kind": "approval", "title": "Pay out", "role": "approver", "payload": {"amount": "412.60"}},
    {"id": "pay", "kind": "tool", "tool": "bench.pay@1", "after": ["ask"], "input": {"amount": "412.60"}},
]
_PAY = {
    "name": "bench.pay",
    "version": 1,
    "adapter": "python",
    "config": {"callable": "runtime.tools.builtin:echo"},
    "input_schema": {"type": "object"},
    "side_effect": "write",
    "recovery": "idempotent",
    "idempotency": "natural",
}


def decide(options: dict[str, Any]) -> dict[str, Any]:
    """Decide → committed one after the other, then twenty approvers on the same requests: none is decided twice."""
    samples = options["samples"] or 200
    scene = _scene()
    approvers = [scene.member("approver") for _ in range(APPROVERS)]
    scene.submit("asks", samples)
    seconds = [_decide(approvers[0], row) * 1000 for row in _pending(approvers[0], samples)]
    together, refused = _together(scene, approvers, samples)
    return line(
        "decide", "decide → committed", "ms", seconds, approvers=APPROVERS,
        together_p50=percentile(together, 50), together_p95=percentile(together, 95), decided=len(together),
        refused=refused,
    )  # fmt: skip


def _decide(actor: Actor, row: dict[str, Any]) -> float:
    begun = time.perf_counter()
    decide_request(
        actor=actor,
        request_id=row["id"],
        decision="approve",
        version=row["version"],
        payload_hash=row["payload_hash"],
    )
    return time.perf_counter() - begun


def _together(scene: Scene, approvers: list[Actor], samples: int) -> tuple[list[float], int]:
    """Let everybody decide every request at once; returns the milliseconds of what was decided, and refusals.

    Raises RuntimeError when one request was decided by two.
    """
    from django.db import connections

    scene.submit("asks", samples)
    rows = _pending(approvers[0], samples)
    done: list[tuple[uuid.UUID, float]] = []
    refused: list[uuid.UUID] = []

    def work(actor: Actor) -> None:
        try:
            for row in rows:
                try:
                    done.append((row["id"], _decide(actor, row) * 1000))
                except Conflict:
                    refused.append(row["id"])
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(actor,)) for actor in approvers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(done) != len({one for one, _ms in done}) or len(done) != len(rows):
        raise RuntimeError(f"{len(rows)} requests, {len(done)} decisions: a guarantee was not kept")
    return [ms for _id, ms in done], len(refused)


def inbox(options: dict[str, Any]) -> dict[str, Any]:
    """The first page of the inbox over HTTP, with 10,000 pending requests in 50 tenants; ``cpu_ms`` is the server's."""
    samples, tenants, pending = options["samples"] or 60, options["tenants"], options["pending"]
    scenes = [_scene() for _ in range(tenants)]
    for scene in scenes:
        scene.submit("asks", pending // tenants)
    keys = [sign_in(scene) for scene in scenes]
    waits: list[float] = []
    with web() as (address, process):
        for key in keys[:3]:
            fetch(f"{address}/inbox/?view=all", key)
        before = sum(process.cpu_times()[:2])
        for number in range(samples):
            seconds, size = fetch(f"{address}/inbox/?view=all", keys[number % tenants])
            waits.append(seconds * 1000)
        own = (sum(process.cpu_times()[:2]) - before) / samples * 1000
    work = f"a page of {pending} pending in {tenants} tenants"
    return line("inbox", work, "ms", waits, bytes=size, cpu_ms=own)


def _scene() -> Scene:
    """Make a tenant whose payments need a person."""
    scene = Scene.make()
    register_tool(actor=scene.actor, contract=_PAY)
    scene.register("asks", _NODES)
    return scene


def _pending(actor: Actor, most: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(rows) < most:
        page = list_requests(actor=actor, limit=500, cursor=cursor)
        rows += page.items
        cursor = page.next
        if cursor is None:
            break
    return rows[:most]
