"""What a regular expression costs each time ``matches`` is asked: the library compiles it at every evaluation. Pure.

The compiler unrolls counted repetitions, and a class of Unicode is some hundred states large: ``\\w{64}`` takes 30 ms
with the interpreter lock held, ``[A-Za-z0-9_]{64}`` 30 µs. So an estimate from above is bounded at registration.
"""

from __future__ import annotations

import math
import re

# Together in one expression, and of one that is asked for each item of a comprehension; about microseconds.
MAX_COST = 5_000
MAX_COST_EACH = 50

_NAMED = re.compile(r"\\[xuU]\{[^}]*\}|(\\[pP])\{[^}]*\}")
_COUNTED = re.compile(r"\{\s*(\d+)\s*(?:,\s*(\d*)\s*)?\}")
_PART = re.compile(r"\\.|\[:?\^|.", re.DOTALL)
_IGNORING_CASE = re.compile(r"\(\?[a-zA-Z]*i")
_WEIGHTS = {
    "\\w": 430, "\\W": 430, "\\p": 430, "\\P": 430, "\\d": 70, "\\D": 70, "\\s": 12, "\\S": 12,
    ".": 8, "[^": 8, "[:^": 8,
}  # fmt: skip


def pattern_cost(pattern: str) -> int:
    """Return about how many microseconds compiling ``pattern`` takes, from above: as if every count held for all."""
    plain = _NAMED.sub(lambda found: found[1] or "x", pattern)
    counts = [max(1, int(low), int(high or 0)) for low, high in _COUNTED.findall(plain) if len(low + high) < 10]
    if len(counts) < len(_COUNTED.findall(plain)):
        return MAX_COST + 1
    weight = sum(_WEIGHTS.get(part, 1) for part in _PART.findall(_COUNTED.sub("", plain)))
    case = 9 if _IGNORING_CASE.search(plain) else 1
    return math.prod(counts) * weight * case


__all__ = ["MAX_COST", "MAX_COST_EACH", "pattern_cost"]
