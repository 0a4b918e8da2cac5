"""When a call is made again by itself, and after how long (B4.1, B4.2, C3.3)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kernel.errors import TRANSIENT_CLASSES
from runtime.tools.contract_schema import ERROR_CLASSES, FINAL_CLASSES
from runtime.tools.retry import may_retry, next_delay

POLICY = {"max_attempts": 3, "initial_s": 1.0, "max_s": 60.0, "jitter": 0.2, "retry_on": ["transient"]}
RECOVERIES = ["replayable", "idempotent", "query", "compensable", "human"]


@pytest.mark.req("B4.2")
def test_the_delay_doubles_to_its_bound() -> None:
    plain = {**POLICY, "jitter": 0}
    delays = [next_delay(plain, attempt, random.Random(1)) for attempt in range(1, 10)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@given(
    attempt=st.integers(0, 10**9),
    initial=st.floats(0, 1000),
    longest=st.floats(0, 1000),
    jitter=st.floats(0, 1),
    seed=st.integers(),
)
def test_the_delay_is_the_formula(attempt: int, initial: float, longest: float, jitter: float, seed: int) -> None:
    policy = {"initial_s": initial, "max_s": longest, "jitter": jitter}
    base = min(longest, initial * 2.0 ** min(max(attempt - 1, 0), 60))
    assert base <= next_delay(policy, attempt, random.Random(seed)) <= base * (1 + jitter) + 1e-9


def test_a_tool_that_asks_for_a_wait_gets_it_within_bounds() -> None:
    assert next_delay({**POLICY, "jitter": 0}, 1, random.Random(1), retry_after=30) == 30
    assert next_delay({**POLICY, "jitter": 0}, 1, random.Random(1), retry_after=10**9) == 3600
    assert next_delay({**POLICY, "jitter": 0}, 5, random.Random(1), retry_after=1) == 16


@pytest.mark.req("B4.1")
@pytest.mark.parametrize("error_class", ERROR_CLASSES)
def test_only_passing_classes_are_retried(error_class: str) -> None:
    allowed = may_retry(POLICY, error_class, "read", "replayable", 1)
    assert allowed is (error_class in TRANSIENT_CLASSES)
    everything = {**POLICY, "retry_on": list(ERROR_CLASSES)}
    assert may_retry(everything, error_class, "read", "replayable", 1) is (error_class not in FINAL_CLASSES)


def test_attempts_are_bounded() -> None:
    assert [may_retry(POLICY, "network", "none", "replayable", attempt) for attempt in (1, 2, 3, 4)] == [
        True,
        True,
        False,
        False,
    ]
    assert not may_retry({}, "network", "none", "replayable", 1)


@pytest.mark.req("B4.1", "C3.3")
@pytest.mark.parametrize("recovery", RECOVERIES)
@pytest.mark.parametrize("kind", ["error", "refused", "unknown", "ok"])
def test_an_unknown_or_refused_write_is_never_sent_again_by_itself(recovery: str, kind: str) -> None:
    for error_class in ERROR_CLASSES:
        assert not may_retry(POLICY, error_class, "write", recovery, 1, kind=kind, idempotency="key")


@pytest.mark.parametrize(
    ("recovery", "idempotency", "allowed"),
    [
        ("idempotent", "key", True),
        ("query", "none", True),
        ("compensable", "key", True),
        ("compensable", "none", False),
        ("human", "key", False),
        ("human", "none", False),
    ],
)
def test_an_absent_write_is_sent_again_where_the_contract_allows(
    recovery: str, idempotency: str, allowed: bool
) -> None:
    assert may_retry(POLICY, "rate_limited", "write", recovery, 1, kind="absent", idempotency=idempotency) is allowed


def test_what_was_never_sent_may_be_sent() -> None:
    assert may_retry(POLICY, "network", "write", "human", 1, kind="not_sent")
    assert not may_retry(POLICY, "policy", "write", "human", 1, kind="not_sent")
    assert not may_retry(POLICY, None, "write", "human", 1, kind="not_sent")
