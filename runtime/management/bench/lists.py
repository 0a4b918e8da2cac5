"""Lists over a full table: the runs page with a million runs and ten million steps behind it."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from html import unescape
from typing import Any

from runtime.management.bench.browser import fetch_each, read, sign_in, web
from runtime.management.bench.engine import PATIENCE_SECONDS
from runtime.management.bench.figures import line, percentile
from runtime.management.bench.scene import DAG, NOOP, Scene, nodes_of
from runtime.management.bench.stack import workers
from runtime.store.tx import plain_send, tenant_tx

SPAN = timedelta(days=30)
BATCH = 5_000
# Every so many batches are of the run that failed.
FAILED_EVERY = 20
# What people ask of the list; the page's default is the last 24 hours.
ADDRESSES = {
    "day": "/runs/",
    "all": "/runs/?within=all",
    "failed": "/runs/?status=failed&within=all",
    "workflow": "/runs/?workflow=w1&within=30d",
    "error": "/runs/?error=business&within=30d",
}


def lists(options: dict[str, Any]) -> dict[str, Any]:
    """The runs page over ``--fill`` finished steps, ten a run, begun within 30 days; each way of asking for itself."""
    samples = options["samples"] or 40
    scene = Scene.make()
    templates = _templates(scene, options["workers"])
    begun = time.perf_counter()
    runs = fill(scene, templates, options["fill"] // len(DAG))
    filling = time.perf_counter() - begun
    key = sign_in(scene)
    with web() as (address, process):
        asked = {name: address + path for name, path in ADDRESSES.items()}
        asked["next"] = address + "/runs/" + _older(read(asked["all"], key))
        parts, own = fetch_each(asked, key, samples, process)
    return line(
        "lists", f"runs page over {runs} runs and {runs * len(DAG)} steps", "ms", parts["day"], cpu_ms=own,
        fill_s=filling, p95_of={name: percentile(found, 95) for name, found in parts.items()},
    )  # fmt: skip


def _templates(scene: Scene, processes: int) -> list[Any]:
    """Let the engine end one run well and one badly; return their ids."""
    scene.register("w1", nodes_of(DAG))
    bad = nodes_of(DAG)
    bad[0] = {**bad[0], "tool": "core.fail@1", "input": {"error_class": "business", "message": "The order is closed."}}
    assert bad[1]["tool"] == NOOP
    scene.register("w1-bad", bad)
    with workers(processes):
        found = [scene.submit(name, 1)[0] for name in ("w1", "w1-bad")]
        scene.finish(PATIENCE_SECONDS)
    return found


def fill(scene: Scene, templates: list[Any], runs: int) -> int:
    """Copy the finished runs with their steps until there are ``runs`` more, begun evenly within SPAN."""
    with tenant_tx(scene.actor.tenant_id, using="owner") as tx:
        newest = tx.now()
    done = 0
    while done < runs:
        some = min(BATCH, runs - done)
        which = 1 if (done // BATCH) % FAILED_EVERY == FAILED_EVERY - 1 else 0
        span = {"from": newest - SPAN * (1 - done / runs), "to": newest - SPAN * (1 - (done + some) / runs)}
        with tenant_tx(scene.actor.tenant_id, using="owner") as tx:
            tx.send("bench_guard_off")
            tx.send("bench_copy_history", {"template": templates[which], "copies": some, **span})
            tx.send("bench_check_now")
            tx.send("bench_guard_on")
        done += some
    plain_send("bench_vacuum", using="owner")
    return done


def _older(page: str) -> str:
    """Return the query of the list's next page."""
    found = re.search(r'rel="next" href="([^"]+)"', page)
    if found is None:
        raise RuntimeError("The list has no next page: fill in more.")
    return unescape(found.group(1))
