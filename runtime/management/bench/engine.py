"""Rates: many runs, one wide run, a full table, and work that is blocked in front of the queue."""

from __future__ import annotations

import statistics
from typing import Any

from runtime.actions.limits import set_limit
from runtime.actions.runs import cancel_run, pause_run
from runtime.kernel.conf import conf
from runtime.management.bench.figures import line, spin_ms
from runtime.management.bench.scene import DAG, Scene, nodes_of
from runtime.management.bench.stack import workers
from runtime.store.tx import plain_send, tenant_tx

PATIENCE_SECONDS = 900.0
INDEX = "qd_step_ready"


def rates(scene: Scene, options: dict[str, Any], repeat: int) -> tuple[list[float], list[float]]:
    """Return W1's steps/s of each repetition, and the seconds that submitting took."""
    found, submitting = [], []
    for _ in range(repeat):
        wall, submit = scene.time_of("w1", options["runs"], PATIENCE_SECONDS)
        found.append(options["runs"] * len(DAG) / wall)
        submitting.append(submit)
    return found, submitting


def throughput(options: dict[str, Any]) -> dict[str, Any]:
    """W1: bulk-submitted runs of the ten-step DAG, from the first submit to the last run terminal."""
    scene = Scene.make()
    scene.register("w1", nodes_of(DAG))
    with workers(options["workers"], running=options["workers_running"]):
        warm_up(scene)
        found, submitting = rates(scene, options, options["repeat"])
    proved = scene.prove()
    return line(
        "throughput", "W1", "steps/s", found,
        steps_per_s=statistics.median(found), runs=options["runs"], workers=options["workers"],
        submit_s=statistics.median(submitting), rates=found, proved=proved,
    )  # fmt: skip


def effects(options: dict[str, Any]) -> dict[str, Any]:
    """Steps that write: ``intended`` and ``sent`` committed before each call of a tool that takes 5 ms."""
    scene, runs = Scene.make(), options["runs"]
    scene.register("write", [{"id": "one", "kind": "tool", "tool": "bench.write_thread@1", "input": {}}])
    with workers(options["workers"], running=options["workers_running"]):
        scene.time_of("write", 100, PATIENCE_SECONDS)
        found = [runs / scene.time_of("write", runs, PATIENCE_SECONDS)[0] for _ in range(options["repeat"])]
    scene.prove()
    wanted = 100 + runs * options["repeat"]
    if (kept := scene.rows("bench_operations")[0]) != (wanted, wanted):
        raise RuntimeError(
            f"Of {wanted} effects {kept[0]} are in the ledger and {kept[1]} were sent once and succeeded."
        )
    return line(
        "effects", "side-effecting steps, 5 ms tool", "steps/s", found,
        steps_per_s=statistics.median(found), runs=runs, workers=options["workers"],
        slots=conf().slots * options["workers"],
    )  # fmt: skip


def wide(options: dict[str, Any]) -> dict[str, Any]:
    """One run whose steps are all parallel; ``of_w1`` is the ratio to W1 measured beside it."""
    scene, width = Scene.make(), options["width"]
    scene.register("w1", nodes_of(DAG))
    scene.register("wide", nodes_of({f"n{i}": [] for i in range(width)}))
    found: list[float] = []
    narrow: list[float] = []
    with workers(options["workers"], running=options["workers_running"]):
        warm_up(scene)
        for _ in range(options["repeat"]):
            narrow += rates(scene, options, 1)[0]
            wall, _submit = scene.time_of("wide", 1, PATIENCE_SECONDS)
            found.append(width / wall)
    scene.prove()
    w1 = statistics.median(narrow)
    return line(
        "wide", "one run of parallel steps", "steps/s", found,
        steps_per_s=statistics.median(found), width=width, w1_steps_per_s=w1, of_w1=statistics.median(found) / w1,
    )  # fmt: skip


def flat(options: dict[str, Any]) -> dict[str, Any]:
    """W1 before and after the tables were filled with finished steps; the ratio is after by before.

    With ``--bounded`` everything that may bound a call is asked about: limits of two kinds and the tenant's policy.
    """
    scene, wanted = Scene.make(), options["fill"]
    scene.register("w1", nodes_of(DAG))
    if options["bounded"]:
        scene.bound("core.noop")
    with workers(options["workers"], running=options["workers_running"]):
        warm_up(scene)
        noise = [spin_ms()]
        before = rates(scene, options, options["repeat"])[0]
        fill(scene, wanted)
        noise.append(spin_ms())
        after = rates(scene, options, options["repeat"])[0]
    ratio = statistics.median(after) / statistics.median(before)
    return line(
        "flat", f"W1 with {wanted} finished steps in the tables", "ratio", [ratio],
        before_steps_per_s=statistics.median(before), after_steps_per_s=statistics.median(after),
        before=before, after=after, spins=noise, bounded=options["bounded"],
    )  # fmt: skip


def fill(scene: Scene, steps: int) -> None:
    """Copy one finished run until ``steps`` finished steps were added, as the owner and under all constraints."""
    template = scene.rows("bench_finished_run")[0][0]
    left = -(-steps // len(DAG))
    while left > 0:
        some = min(left, 2000)
        with tenant_tx(scene.actor.tenant_id, using="owner") as tx:
            tx.send("bench_guard_off")
            tx.send("bench_copy_run", {"template": template, "copies": some})
            tx.send("bench_check_now")
            tx.send("bench_guard_on")
        left -= some
    plain_send("bench_vacuum", using="owner")


def bounded(options: dict[str, Any]) -> dict[str, Any]:
    """W1 without limits and, in turns, with two tokens for each call; ``ratio`` is with by without."""
    free, bound = Scene.make(), Scene.make()
    for scene in (free, bound):
        scene.register("w1", nodes_of(DAG))
    bound.bound("core.noop")
    without: list[float] = []
    within: list[float] = []
    with workers(options["workers"], running=options["workers_running"]):
        for scene in (free, bound):
            warm_up(scene)
        for _ in range(options["repeat"]):
            without += rates(free, options, 1)[0]
            within += rates(bound, options, 1)[0]
    proved = bound.prove()
    ratio = statistics.median(within) / statistics.median(without)
    return line(
        "bounded", "W1 under a tenant's and a tool's limit", "ratio", [ratio],
        without_steps_per_s=statistics.median(without), within_steps_per_s=statistics.median(within),
        without=without, within=within, proved=proved,
    )  # fmt: skip


def blocked(options: dict[str, Any]) -> dict[str, Any]:
    """W1 alone and behind parked steps that come first by priority; ``ratio`` is behind by alone.

    They are parked by the pauses of their runs, or by a limit.

    Raises RuntimeError when the claim is not answered from the partial index of ready steps.
    """
    scene, parked = Scene.make(), options["parked"]
    width = min(5000, parked)
    scene.register("w1", nodes_of(DAG))
    scene.register("parked", nodes_of({f"n{i}": [] for i in range(width)}))
    with workers(options["workers"], running=options["workers_running"]):
        warm_up(scene)
        alone = rates(scene, options, options["repeat"])[0]
    if options["by"] == "limit":
        # One call a day: the first takes it, the others are parked as they are claimed.
        set_limit(actor=scene.actor, scope="workflow", name="parked", calls=1, per_s=86_400)
    runs = scene.submit("parked", parked // width, priority=50)
    if options["by"] == "pause":
        for run_id in runs:
            pause_run(actor=scene.actor, run_id=run_id, reason="the benchmark parks it")
    plan = explain(scene)
    with workers(options["workers"], running=options["workers_running"]):
        warm_up(scene)
        behind = rates(scene, options, options["repeat"])[0]
    for run_id in runs:
        cancel_run(actor=scene.actor, run_id=run_id, reason="the benchmark is over")
    if f"using {INDEX}" not in " ".join(plan):
        raise RuntimeError(f"The claim does not use {INDEX}:\n" + "\n".join(plan))
    ratio = statistics.median(behind) / statistics.median(alone)
    return line(
        "blocked", f"W1 behind {parked} parked steps", "ratio", [ratio], by=options["by"],
        alone_steps_per_s=statistics.median(alone), behind_steps_per_s=statistics.median(behind),
        alone=alone, behind=behind, plan=plan,
    )  # fmt: skip


def explain(scene: Scene) -> list[str]:
    """Return the plan of the claim as a worker gets it."""
    with tenant_tx(scene.actor.tenant_id, using="owner") as tx:
        tx.send("bench_as_worker")
        return tx.plan("claim_ready", ("default", scene.actor.tenant_id, [], 64))


def warm_up(scene: Scene) -> None:
    """Run a little, so that every process has its plans, tools and prepared statements."""
    scene.time_of("w1", 100, PATIENCE_SECONDS)
