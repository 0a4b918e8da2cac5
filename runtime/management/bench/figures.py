"""Percentiles, the noise of the machine, and the one line a benchmark prints."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

# What is aimed at, beside each figure: the name in the line, "least" or "most", and the number.
AIMS: dict[str, list[tuple[str, str, float]]] = {
    "latency": [("p50", "most", 3), ("p95", "most", 10)],
    "approval": [("p50", "most", 5), ("p95", "most", 15)],
    "effects": [("steps_per_s", "least", 1000)],
    "submit": [("submits_per_s", "least", 150)],
    "bulk": [("tasks_per_s", "least", 5000)],
    "wide": [("of_w1", "least", 0.5)],
    "flat": [("value", "least", 0.85)],
    "blocked": [("value", "least", 0.85)],
    "bounded": [("value", "least", 0.85)],
    "recovery": [("max", "most", 1000)],
    "lost": [("max", "most", 16_000)],
    "idle": [("value", "most", 3)],
    "start": [("value", "most", 10)],
    "inbox": [("p95", "most", 80)],
    "decide": [("p95", "most", 25)],
    "repairs": [("p95", "most", 80)],
    "bulkrepair": [("p95", "most", 25)],
    "lists": [("p95", "most", 80)],
    "live": [("p95", "most", 100)],
    "graph": [("longest_ms", "most", 50)],
    "pages": [("p95", "most", 150)],
    # W1 by itself says little: the ratios to the peers of the same rounds are aimed at, in `make bench`'s last line.
    "rounds": [("ours_by_dbos", "least", 10), ("ours_by_best_peer", "least", 5)],
}


def percentile(values: Sequence[float], p: float) -> float:
    """Return the value at percentile ``p`` (0 to 100), without interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(p / 100 * (len(ordered) - 1)))]


def spin_ms() -> float:
    """Return how long a fixed loop takes (ms, median of five): what the neighbours leave of a core."""
    times = []
    for _ in range(5):
        begun, x = time.perf_counter(), 0
        for i in range(400_000):
            x += i
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def line(bench: str, work: str, unit: str, values: Sequence[float], **extra: Any) -> dict[str, Any]:
    """Return a benchmark's line: ``value`` is the median of ``values``, percentiles and ``n`` are over them.

    ``aim`` says what is aimed at, by the name of the figure: {"least" or "most": number, "reached": whether}.
    """
    told = {
        "bench": bench,
        "work": work,
        "unit": unit,
        "value": _short(statistics.median(values)),
        "p50": _short(statistics.median(values)),
        **{f"p{p}": _short(percentile(values, p)) for p in (95, 99)},
        "n": len(values),
        **{name: _short(value) for name, value in extra.items()},
        "load1": round(os.getloadavg()[0], 2),
        "spin_ms": round(spin_ms(), 1),
    }
    if bench in AIMS:
        told["aim"] = aims(bench, told)
    return told


def aims(bench: str, told: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what is aimed at beside each figure of a line; ``reached`` is None for what was not measured."""
    return {name: _aim(told[name], side, number) for name, side, number in AIMS[bench]}


def _aim(figure: float | None, side: str, number: float) -> dict[str, Any]:
    if figure is None:
        return {side: number, "reached": None}
    return {side: number, "reached": figure >= number if side == "least" else figure <= number}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list | tuple):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return value
