"""What a person sees: from a commit to the pixel with fifty watchers, a large graph in motion, a large run's page."""

from __future__ import annotations

import asyncio
import json
import statistics
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from django.conf import settings

from runtime.actions.skip import skip_step
from runtime.kernel.errors import ConfigurationError
from runtime.management.bench.browser import chromium, fetch, sign_in, traced, web
from runtime.management.bench.figures import line, percentile
from runtime.management.bench.scene import Scene, nodes_of
from runtime.queries.steps import list_steps
from runtime.worker.maintenance.layouts import draw_missing

READERS = 49
# A change every 50 ms: each is seen by itself, none waits for the one before.
EVERY_SECONDS = 0.05
# Paints are noted after the frame in which the drawing has taken a seq.
NOTE_PAINTS = """() => {
  window.paints = [];
  const channel = new MessageChannel();
  const waiting = [];
  channel.port1.onmessage = () => {
    const at = performance.timeOrigin + performance.now();
    for (const seq of waiting.splice(0)) window.paints.push([seq, at]);
  };
  document.addEventListener("qd:drawn", (event) => {
    waiting.push(event.detail.seq);
    requestAnimationFrame(() => channel.port2.postMessage(0));
  });
}"""


def live(options: dict[str, Any]) -> dict[str, Any]:
    """From a step's commit to its changed pixels in one Chromium, while 49 sockets read the same run."""
    samples = options["samples"] or 200
    scene = Scene.make()
    scene.register("wide", nodes_of({f"n{i}": [] for i in range(samples + 1)}))
    run_id = scene.submit("wide", 1)[0]
    draw_all()
    key = sign_in(scene)
    with web() as (address, _), Readers(address, key, run_id, READERS) as readers, chromium(address, key) as page:
        page.goto(f"{address}/runs/{run_id}/")
        page.wait_for_selector('#graph[data-state="live"]', timeout=30_000)
        page.wait_for_timeout(1_000)
        page.evaluate(NOTE_PAINTS)
        with moving(scene, run_id, samples, EVERY_SECONDS) as moves:
            while moves["running"]:
                page.wait_for_timeout(50)
        commits: dict[int, float] = moves["commits"]
        page.wait_for_timeout(1_500)
        paints = page.evaluate("() => window.paints")
    seen = latencies(commits, [(int(seq), at) for seq, at in paints])
    heard = latencies(commits, readers.heard)
    if len(seen) < samples * 0.9:
        raise RuntimeError(f"Of {samples} changes the page showed {len(seen)}.")
    return line(
        "live", f"commit to pixel, {READERS} sockets and one Chromium", "ms", seen,
        socket_p50=percentile(heard, 50), socket_p95=percentile(heard, 95), readers=READERS, gaps=readers.gaps,
    )  # fmt: skip


def latencies(commits: dict[int, float], told: list[tuple[int, float]]) -> list[float]:
    """Return for each commit (seq → ms since 1970) how long it took until somebody was told of that seq or a later."""
    found = []
    told = sorted(told, key=lambda one: one[1])
    for seq, at in commits.items():
        if (first := next((when for told_seq, when in told if told_seq >= seq and when >= at), None)) is not None:
            found.append(first - at)
    return found


def skips(scene: Scene, run_id: uuid.UUID, count: int, every: float) -> Iterator[tuple[int, float]]:
    """Skip waiting steps at a steady pace; yields (seq, time of the commit in ms), as the committing process saw it."""
    done = 0
    begun = time.monotonic()
    while done < count:
        steps = [one for one in list_steps(actor=scene.actor, run_id=run_id)["items"] if one["status"] == "queued"]
        for step in steps[: count - done]:
            skip_step(actor=scene.actor, step_id=step["id"], expected_version=None, reason="the benchmark goes on")
            at = time.time() * 1000
            yield int(scene.rows("live_heads", ([run_id],))[0][1]), at
            done += 1
            time.sleep(max(0.0, begun + done * every - time.monotonic()))
        if not steps:
            return


class Readers:
    """Sockets in a thread of their own that only read; ``heard`` has (seq, ms) of every patch of each of them."""

    def __init__(self, address: str, key: str, run_id: uuid.UUID, count: int) -> None:
        self.heard: list[tuple[int, float]] = []
        self.gaps = 0
        self._address, self._key, self._run_id, self._count = address, key, run_id, count
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._work, name="readers", daemon=True)

    def __enter__(self) -> Readers:
        self._thread.start()
        if not self._open.wait(60):
            raise RuntimeError("The sockets did not open.")
        return self

    def __exit__(self, *exc: object) -> None:
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)

    def _work(self) -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(self._read_all())

    async def _read_all(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        ready = [asyncio.Event() for _ in range(self._count)]
        readers = [asyncio.create_task(self._read(one)) for one in ready]
        for one in ready:
            await one.wait()
        self._open.set()
        await asyncio.gather(*readers)

    async def _read(self, ready: asyncio.Event) -> None:
        try:
            from websockets.asyncio.client import connect
        except ImportError:
            raise ConfigurationError("This benchmark needs the dev dependencies (websockets).") from None
        address = f"{self._address.replace('http', 'ws', 1)}/ws/runs/{self._run_id}/"
        headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={self._key}", "Origin": self._address}
        seq = None
        async with connect(address, additional_headers=headers, max_size=2**26, proxy=None) as connection:
            async for text in connection:
                message = json.loads(text)
                if message["type"] == "patch":
                    self.heard.append((message["to_seq"], time.time() * 1000))
                    self.gaps += seq is not None and message["from_seq"] > seq + 1
                    seq = message["to_seq"]
                elif message["type"] == "snapshot":
                    seq = message["seq"]
                    ready.set()


def large() -> dict[str, list[str]]:
    """Return 1,695 nodes in nine layers, 420 wide: the shape of the largest real graph (epigenomics)."""
    graph: dict[str, list[str]] = {f"split_{i}": [] for i in range(6)}
    for i in range(420):
        graph[f"filter_{i}"] = [f"split_{i % 6}"]
        for before, name in (("filter", "convert"), ("convert", "pack"), ("pack", "map")):
            graph[f"{name}_{i}"] = [f"{before}_{i}"]
    for i in range(6):
        graph[f"merge_{i}"] = [f"map_{n}" for n in range(i, 420, 6)]
    return {**graph, "all": [f"merge_{i}" for i in range(6)], "index": ["all"], "pileup": ["index"]}


def graph(options: dict[str, Any]) -> dict[str, Any]:
    """A 1,695-node run at about 50 events a second: the longest task of the browser's main thread, in its own time."""
    samples = options["samples"] or 250
    scene = Scene.make()
    scene.register("large", nodes_of(large()))
    run_id = scene.submit("large", 1)[0]
    draw_all()
    key = sign_in(scene)
    figures: dict[str, Any] = {}
    blocking: list[float] = []
    with web() as (address, _), chromium(address, key) as page:
        for view in ("groups", "steps", "all"):
            page.goto(f"{address}/runs/{run_id}/")
            page.wait_for_selector('#graph[data-state="live"]', timeout=30_000)
            if view != "groups":
                page.click("[data-key=steps]")
            if view == "all":
                page.click(".zoom button:last-child")
            page.wait_for_timeout(1_000)
            before = time.monotonic()
            with traced(page) as tasks, moving(scene, run_id, samples // 3, 0.04) as events:
                while events["running"]:
                    page.wait_for_timeout(50)
            seconds = time.monotonic() - before
            own = [task["tdur"] / 1000 for task in tasks if "tdur" in task]
            blocking += own
            figures[view] = {
                "events_per_s": events["count"] / seconds,
                "longest_ms": max(own, default=0.0),
                "longest_wall_ms": max((task["dur"] / 1000 for task in tasks), default=0.0),
                "elements": page.evaluate("() => document.querySelectorAll('#graph *').length"),
            }
    worst = max(blocking)
    return line(
        "graph", "1,695 nodes at 50 events/s: main thread", "ms", blocking, longest_ms=worst, views=figures
    )  # fmt: skip


@contextmanager
def moving(scene: Scene, run_id: uuid.UUID, count: int, every: float) -> Iterator[dict[str, Any]]:
    """Skip steps beside the block, in a thread: yields {running, count of events, commits (seq → ms)}."""
    from django.db import connections

    state: dict[str, Any] = {"running": True, "count": 0, "commits": {}}

    def work() -> None:
        try:
            first = int(scene.rows("live_heads", ([run_id],))[0][1])
            for seq, at in skips(scene, run_id, count, every):
                state["commits"][seq] = at
                state["count"] = seq - first
        finally:
            state["running"] = False
            connections.close_all()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield state
    thread.join(60)


def pages(options: dict[str, Any]) -> dict[str, Any]:
    """The page of a 1,000-node run, and what it fetches for the drawing; ``cpu_ms`` is the web process's own time."""
    samples = options["samples"] or 30
    scene = Scene.make()
    names = list(large())[:1000]
    scene.register("thousand", nodes_of({name: before for name, before in large().items() if name in names}))
    run_id = scene.submit("thousand", 1)[0]
    draw_all()
    key = sign_in(scene)
    parts: dict[str, list[float]] = {"page": [], "graph": []}
    sizes: dict[str, int] = {}
    own: dict[str, float] = {}
    with web() as (address, process):
        addresses = {
            "page": f"{address}/runs/{run_id}/",
            "graph": f"{address}/api/v1/runs/{run_id}/graph/?steps=brief",
        }
        for part, where in addresses.items():
            for _ in range(3):
                fetch(where, key)
            before = sum(process.cpu_times()[:2])
            for _ in range(samples):
                seconds, sizes[part] = fetch(where, key)
                parts[part].append(seconds * 1000)
            own[part] = (sum(process.cpu_times()[:2]) - before) / samples * 1000
    return line(
        "pages", "page of a 1,000-node run", "ms", parts["page"], bytes=sizes, cpu_ms=own,
        graph_p50=statistics.median(parts["graph"]), graph_p95=percentile(parts["graph"], 95),
    )  # fmt: skip


def draw_all() -> None:
    """Do the layout duty's work here, as no scheduler runs."""
    while draw_missing(using="owner"):
        pass
