"""When a failed call may be made again, and how long to wait before (B4.1, B4.2, C3.3)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from runtime.kernel.errors import TRANSIENT_CLASSES
from runtime.tools.contract_schema import FINAL_CLASSES

_LARGEST_EXPONENT = 60


def next_delay(policy: Mapping[str, Any], attempt: int, rng: random.Random, retry_after: float | None = None) -> float:
    """Return the seconds to wait after failed attempt number ``attempt`` (1 is the first): min(dmax, d0·2^k) + jitter.

    ``jitter`` is the largest share of the delay that is added. A wait that the tool asked for is a floor, bounded by
    the policy's ``max_s`` or one hour, whichever is greater, so that a tool cannot park a step for ever.
    """
    longest = float(policy.get("max_s", 60.0))
    base = min(longest, float(policy.get("initial_s", 1.0)) * 2.0 ** min(max(attempt - 1, 0), _LARGEST_EXPONENT))
    delay = base + rng.uniform(0.0, float(policy.get("jitter", 0.2)) * base)
    if retry_after is not None and retry_after > 0:
        delay = max(delay, min(float(retry_after), max(longest, 3600.0)))
    return delay


def may_retry(
    policy: Mapping[str, Any],
    error_class: str | None,
    side_effect: str,
    recovery: str,
    attempt: int,
    *,
    kind: str = "error",
    idempotency: str = "none",
) -> bool:
    """Say whether the same call may be made again by itself after ``attempt`` attempts.

    ``kind`` is the result's kind. Unknown and refused results are never retried here: an unknown write is queried.
    A writing call is retried only when it surely was not applied and its contract lets the tool tell a second send.
    """
    if error_class is None or error_class in FINAL_CLASSES or attempt >= int(policy.get("max_attempts", 1)):
        return False
    named = policy.get("retry_on", ("transient",))
    if error_class not in named and not ("transient" in named and error_class in TRANSIENT_CLASSES):
        return False
    if kind == "not_sent":
        return True
    if recovery == "human" or kind not in ("error", "absent"):
        return False
    if side_effect != "write":
        return True
    return kind == "absent" and (idempotency != "none" or recovery in ("idempotent", "query"))
