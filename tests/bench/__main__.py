"""`make bench`: interleaved rounds of ours and the peers on one PostgreSQL, then what only ours is asked for.

Prints JSON lines; the last one sums up. The environment steers it:

=========================== ======================================================================================
QUARTERDECK_BENCH_ROUNDS    interleaved rounds (3; figures to be kept are taken over 5)
QUARTERDECK_BENCH_PEERS     folder of the peers' scripts (../shared/bench_peers)
QUARTERDECK_BENCH_PEER_RUNS runs of W1 that a peer is given (200)
QUARTERDECK_BENCH_ONLY      names of peers, by commas; "none" leaves them out
QUARTERDECK_BENCH_SLOW      set: Prefect and Airflow take part
QUARTERDECK_BENCH_SINGLES   names of our own benchmarks, by commas (all but those of pages)
=========================== ======================================================================================
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from typing import Any

from tests.bench import peers
from tests.bench.server import BenchServer, running

OURS = "quarterdeck"
SINGLES = "latency,approval,effects,submit,bulk,wide,bounded,flat,blocked,recovery,lost,bulkrepair,start,idle"
LIMITS = {
    "latency": ["--samples", "200"],
    "flat": ["--repeat", "2", "--bounded"],
    "blocked": ["--repeat", "2"],
}


def show(line: dict[str, Any]) -> dict[str, Any]:
    """Print one line and return it."""
    print(json.dumps(line), flush=True)
    return line


def ours(server: BenchServer, *arguments: str) -> list[dict[str, Any]]:
    """Run `manage.py bench …` on an empty database of the server and return its lines."""
    with server.database("bench_quarterdeck") as environment:
        command = [sys.executable, str(peers.ROOT / "manage.py"), "bench", *arguments]
        return list(peers.lines(OURS, command, {**server.superuser(), **environment}))


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


def summary(rounds: list[dict[str, float]], server: BenchServer) -> dict[str, Any]:
    """Return medians and spreads by name, and the median over rounds of ours against DBOS and against the best peer."""
    names = sorted({name for one in rounds for name in one})
    values = {name: [one[name] for one in rounds if name in one] for name in names}
    against = [
        (one[OURS] / one.get("dbos", float("nan")), one[OURS] / max(v for k, v in one.items() if k != OURS))
        for one in rounds
        if OURS in one and len(one) > 1
    ]
    with_dbos = [ratio for ratio, _best in against if ratio == ratio]
    return {
        "bench": "rounds",
        "work": "W1",
        "unit": "steps/s",
        "rounds": len(rounds),
        "postgresql": server.version(),
        "median": {name: round(statistics.median(found), 1) for name, found in values.items()},
        "spread": {name: [round(min(found), 1), round(max(found), 1)] for name, found in values.items()},
        "ours_by_dbos": round(statistics.median(with_dbos), 2) if with_dbos else None,
        "ours_by_best_peer": round(statistics.median([best for _r, best in against]), 2) if against else None,
    }


def main() -> None:
    """Run everything; a peer that cannot run is told in a line and is no failure."""
    taking_part = []
    for peer in peers.chosen():
        if reason := peer.missing():
            show({"peer": peer.name, "missing": reason})
        else:
            taking_part.append(peer)
    singles = [name for name in os.environ.get("QUARTERDECK_BENCH_SINGLES", SINGLES).split(",") if name]
    with running() as server:
        rounds = [
            one_round(server, number, taking_part)
            for number in range(int(os.environ.get("QUARTERDECK_BENCH_ROUNDS", "3")))
        ]
        for name in singles:
            for line in ours(server, name, *LIMITS.get(name, [])):
                show(line)
        show(summary(rounds, server))


if __name__ == "__main__":
    main()
