"""Times: from the submit to the first line of the step, and from a worker's death to the step running elsewhere."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

from runtime.actions.submit import SubmitRequest, submit_task
from runtime.kernel.conf import conf
from runtime.management.bench.figures import line
from runtime.management.bench.scene import Scene
from runtime.management.bench.stack import hosts, wait_hosts, workers
from runtime.management.bench.tool import Marks
from runtime.management.bench.whole import Console

GAP_SECONDS, WARM = 0.25, 3


def begin(scene: Scene, workflow: str, tag: str) -> int:
    """Submit one task; return the time (ns) at which the action had returned."""
    submit_task(actor=scene.actor, request=SubmitRequest(workflow=workflow, input={"tag": tag}))
    return time.time_ns()


def one_step(tool: str, **more: Any) -> list[dict[str, Any]]:
    """Return the nodes of a workflow of one step that tells the tag it was submitted with."""
    return [{"id": "one", "kind": "tool", "tool": tool, "input": {"tag": {"$": "input.tag"}, **more}}]


def until_body(scene: Scene, marks: Marks, tag: str) -> float:
    """Wait a moment, submit one task of the workflow ``one``; return the ms from that to its body's first line."""
    time.sleep(GAP_SECONDS * (0.5 + random.random()))
    returned = begin(scene, "one", tag)
    _pid, at = marks.wait(tag)
    return (at - returned) / 1e6


def latency(options: dict[str, Any]) -> dict[str, Any]:
    """W2: an idle system, one task of one step; from the submit's return to the first line of the step's body, in ms.

    The step is a Python tool in a thread of its own, as customers' are; ``--inline`` runs it as core.noop runs. A
    body that begins before the submit has returned counts as a time below zero. With ``--bounded`` everything that may
    bound the call is asked about, as in ``flat``.
    """
    kind = "inline" if options["inline"] else "thread"
    scene, found = Scene.make(), []
    scene.register("one", one_step(f"bench.mark_{kind}@1"))
    if options["bounded"]:
        scene.bound(f"bench.mark_{kind}")
    with Marks() as marks, workers(options["workers"], running=options["workers_running"]):
        for i in range(-WARM, options["samples"] or 200):
            took = until_body(scene, marks, f"L{i}")
            if i >= 0:
                found.append(took)
    scene.finish(30.0)
    return line(
        "latency", "W2", "ms", found, runs=kind, bounded=options["bounded"], min=min(found), max=max(found),
        workers=options["workers"],
    )  # fmt: skip


def recovery(options: dict[str, Any]) -> dict[str, Any]:
    """From ``kill -9`` of the worker process that runs a step to the same step running in another one, in ms.

    It runs under ``manage.py up``, as an installation does.
    """
    found = []
    with Marks() as marks, Console(options["workers"]) as console:
        scene = Scene.make()
        scene.register("one", one_step("bench.linger_thread@1", seconds=1))
        console.wait_workers()
        for i in range(options["samples"] or 10):
            begin(scene, "one", f"R{i}")
            pid, _at = marks.wait(f"R{i}")
            killed = time.time_ns()
            os.kill(pid, signal.SIGKILL)
            _pid, at = marks.wait(f"R{i}", not_from=pid)
            found.append((at - killed) / 1e6)
            scene.finish(60.0)
            time.sleep(1.0)  # a process that takes the dead one's place opens its session at its first ring
        scene.prove_ends()
    return line("recovery", "kill -9 of a worker to its step elsewhere", "ms", found, max=max(found))


def lost(options: dict[str, Any]) -> dict[str, Any]:
    """From the loss of a whole host, which nobody is left to tell of, to its step running on another one, in ms.

    Worker, supervisor and heartbeat are killed at once: only the lease says it, so its length is part of the figure.
    """
    found = []
    with Marks() as marks, hosts(1) as both:
        scene = Scene.make()
        scene.register("one", one_step("bench.linger_thread@1", seconds=2))
        for i in range(options["samples"] or 3):
            begin(scene, "one", f"H{i}")
            pid, _at = marks.wait(f"H{i}")
            gone = next(host for host in both if host.runs(pid))
            killed = time.time_ns()
            gone.kill()
            _pid, at = marks.wait(f"H{i}", conf().lease_seconds + 60.0, not_from=pid)
            found.append((at - killed) / 1e6)
            scene.finish(60.0)
            gone.start()
            wait_hosts(both)
        scene.prove_ends()
    lease = conf().lease_seconds * 1000
    return line("lost", "loss of a host to its step elsewhere", "ms", found, max=max(found), lease_ms=lease)
