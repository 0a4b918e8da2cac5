"""W3: from a decision to the first line of the next step, with an idle system and real workers."""

from __future__ import annotations

import random
import time
import uuid
from typing import Any

from approvals.actions.decide import decide_request
from approvals.queries import get_request, list_requests
from runtime.actions.submit import SubmitRequest, submit_task
from runtime.kernel.actor import Actor
from runtime.management.bench.figures import line
from runtime.management.bench.scene import Scene
from runtime.management.bench.stack import wait_until, workers
from runtime.management.bench.tool import Marks

GAP_SECONDS, WARM = 0.1, 5


def approval(options: dict[str, Any]) -> dict[str, Any]:
    """Decide one request after the other; from the decision's return to the next step's body, in ms.

    ``decide_p50`` is how long deciding took. A body that begins before the decision has returned counts below zero.
    """
    scene, found, deciding = Scene.make(), [], []
    scene.register("asked", _workflow())
    approver = scene.member("approver")
    with Marks() as marks, workers(options["workers"], running=options["workers_running"]):
        for i in range(-WARM, options["samples"] or 200):
            request = _asked(approver, scene, f"A{i}")
            time.sleep(GAP_SECONDS * (0.5 + random.random()))
            begun = time.perf_counter()
            decide_request(
                actor=approver, request_id=request["id"], decision="approve",
                version=request["version"], payload_hash=request["payload_hash"],
            )  # fmt: skip
            returned = time.time_ns()
            took = time.perf_counter() - begun
            _pid, at = marks.wait(f"A{i}")
            if i >= 0:
                found.append((at - returned) / 1e6)
                deciding.append(took * 1000)
    scene.finish(30.0)
    scene.prove_ends()
    return line(
        "approval", "W3", "ms", found, min=min(found), max=max(found), workers=options["workers"],
        decide_p50=sorted(deciding)[len(deciding) // 2],
    )  # fmt: skip


def _workflow() -> list[dict[str, Any]]:
    step = {"id": "one", "kind": "tool", "tool": "bench.mark_thread@1", "input": {"tag": {"$": "input.tag"}}}
    return [{"id": "ask", "kind": "approval", "title": "Go on", "role": "approver"}, {**step, "after": ["ask"]}]


def _asked(approver: Actor, scene: Scene, tag: str) -> dict[str, Any]:
    """Submit a run and return its request, as it is shown."""
    run_id = submit_task(actor=scene.actor, request=SubmitRequest(workflow="asked", input={"tag": tag})).run_id

    def pending() -> list[dict[str, Any]]:
        return list_requests(actor=approver, state="pending", run_id=run_id, limit=1).items

    row = wait_until(pending, 30.0, "a request")[0]
    return get_request(actor=approver, request_id=uuid.UUID(str(row["id"])))
