"""`make bench`: interleaved rounds of ours and the peers on one PostgreSQL, then what only ours is asked for.

Prints JSON lines; the last one sums up. The environment steers it:

=========================== ======================================================================================
QUARTERDECK_BENCH_ROUNDS    interleaved rounds (5, of which the summary tells medians)
QUARTERDECK_BENCH_PEERS     folder of the peers' scripts (../shared/bench_peers)
QUARTERDECK_BENCH_PEER_RUNS runs of W1 that a peer is given (200)
QUARTERDECK_BENCH_ONLY      names of peers, by commas; "none" leaves them out
QUARTERDECK_BENCH_SLOW      set: Prefect and Airflow take part
QUARTERDECK_BENCH_SINGLES   names of our own benchmarks, by commas (all of SINGLES)
QUARTERDECK_BENCH_FILL      finished steps that ``flat`` and ``lists`` work over (1000000, in 100,000 runs; the
                            aim of ``lists`` is told for 10000000, which takes long to fill)
QUARTERDECK_CHROMIUM        the browser of ``live`` and ``graph``, when it is not ``chromium`` on the PATH
=========================== ======================================================================================
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from typing import Any

from runtime.management.bench.figures import aims
from tests.bench import peers
from tests.bench.server import BenchServer, running

OURS = "quarterdeck"
ROUNDS = "5"
FILL = os.environ.get("QUARTERDECK_BENCH_FILL", "1000000")
# Our own benchmarks by the names they are asked for, each with the arguments of `manage.py bench`.
SINGLES: dict[str, list[str]] = {
    "latency": ["latency", "--samples", "200"],
    "latency-bounded": ["latency", "--samples", "200", "--bounded"],
    **{name: [name] for name in ("approval", "effects", "submit", "bulk", "wide", "bounded")},
    "flat": ["flat", "--repeat", "2", "--bounded", "--fill", FILL],
    "blocked": ["blocked", "--repeat", "2"],
    "blocked-limit": ["blocked", "--repeat", "2", "--by", "limit"],
    **{name: [name] for name in ("decide", "inbox", "repairs", "bulkrepair", "live", "graph", "pages")},
    "lists": ["lists", "--fill", FILL],
    **{name: [name] for name in ("recovery", "lost", "start", "idle")},
}
IN_A_BROWSER = ("live", "graph")
SINGLE_TIMEOUT_SECONDS = 3600


def show(line: dict[str, Any]) -> dict[str, Any]:
    """Print one line and return it."""
    print(json.dumps(line), flush=True)
    return line


def ours(server: BenchServer, *arguments: str) -> list[dict[str, Any]]:
    """Run `manage.py bench …` on an empty database of the server and return its lines."""
    seconds = peers.TIMEOUT_SECONDS if arguments[0] == "throughput" else SINGLE_TIMEOUT_SECONDS
    with server.database("bench_quarterdeck") as environment:
        command = [sys.executable, str(peers.ROOT / "manage.py"), "bench", *arguments]
        return list(peers.lines(OURS, command, {**server.superuser(), **environment}, seconds))


def one_round(server: BenchServer, number: int, taking_part: list[peers.Peer]) -> dict[str, float]:
    """Run ours and every peer once, a reference before each; returns steps/s by name."""
    found: dict[str, float] = {}
    order = [None, *taking_part]
    for peer in order[number % len(order) :] + order[: number % len(order)]:
        for line in peers.reference(server.superuser()):
            show({"round": number, **line})
        lines = ours(server, "throughput", "--repeat", "1") if peer is None else peers.run(peer, server.superuser())
        for line in lines:
            show({"round": number, "peer": OURS, **line})
            if "steps_per_s" in line:
                found[OURS if peer is None else peer.name] = line["steps_per_s"]
    return found


def one_single(server: BenchServer, name: str) -> None:
    """Run one of our own benchmarks and show its line; without Chromium those of pages are told as skipped."""
    if name not in SINGLES:
        show({"bench": name, "failed": f"there is none of that name; there are {', '.join(SINGLES)}"})
    elif name in IN_A_BROWSER and not chromium():
        show({"bench": name, "skipped": "Chromium is missing: apt-get install chromium, or set QUARTERDECK_CHROMIUM"})
    else:
        for line in ours(server, *SINGLES[name]):
            show({"bench": name, **line} if "failed" in line else line)


def chromium() -> str | None:
    """Return the browser that `manage.py bench` would drive, if there is one."""
    return os.environ.get("QUARTERDECK_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def summary(rounds: list[dict[str, float]], version: str) -> dict[str, Any]:
    """Return medians and spreads by name, and the median over rounds of ours against DBOS and against the best peer.

    ``aim`` says beside both ratios what is aimed at, and whether it was reached (None: no such peer ran).
    """
    names = sorted({name for one in rounds for name in one})
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    against = [
        (one[OURS] / one.get("dbos", float("nan")), one[OURS] / max(v for k, v in one.items() if k != OURS))
        for one in rounds
        if OURS in one and len(one) > 1
    ]
    with_dbos = [ratio for ratio, _best in against if ratio == ratio]
    told = {
        "bench": "rounds",
        "work": "W1",
        "unit": "steps/s",
        "rounds": len(rounds),
        "postgresql": version,
        "median": {name: round(statistics.median(found), 1) for name, found in values.items()},
        "spread": {name: [round(min(found), 1), round(max(found), 1)] for name, found in values.items()},
        "ours_by_dbos": round(statistics.median(with_dbos), 2) if with_dbos else None,
        "ours_by_best_peer": round(statistics.median([best for _r, best in against]), 2) if against else None,
    }
    return {**told, "aim": aims("rounds", told)}


def main() -> None:
    """Run everything; a peer that cannot run is told in a line and is no failure."""
    taking_part = []
    for peer in peers.chosen():
        if reason := peer.missing():
            show({"peer": peer.name, "missing": reason})
        else:
            taking_part.append(peer)
    singles = [name for name in os.environ.get("QUARTERDECK_BENCH_SINGLES", ",".join(SINGLES)).split(",") if name]
    with running() as server:
        rounds = [
            one_round(server, number, taking_part)
            for number in range(int(os.environ.get("QUARTERDECK_BENCH_ROUNDS", ROUNDS)))
        ]
        for name in singles:
            one_single(server, name)
        show(summary(rounds, server.version()))


if __name__ == "__main__":
    main()
