"""Percentiles, the noise of the machine, and the one line a benchmark prints."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from typing import Any


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
    """Return a benchmark's line: ``value`` is the median of ``values``, percentiles and ``n`` are over them."""
    return {
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


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list | tuple):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return value
