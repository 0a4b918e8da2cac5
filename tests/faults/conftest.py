"""Stacks of their own for tests that kill, freeze and cut; rows are checked at the end like everywhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import db as support
from tests.support import invariants
from tests.support.http_tool import HttpTool
from tests.support.workers import TOOLPACK, Desk, Stack

# For workers that are to lose it while they stand still. A machine that stalls for two seconds takes it from anybody.
SHORT_LEASE = 3


@pytest.fixture
def stack_of(fresh_db: support.Database) -> Iterator[Callable[..., Stack]]:
    """Start stacks on ``fresh_db``; ended with the test."""
    started: list[Stack] = []

    def start(**options: Any) -> Stack:
        stack = Stack(fresh_db, **options)
        started.append(stack)
        return stack.wait_ready()

    yield start
    for stack in started:
        stack.close()


@pytest.fixture
def desk(tenant) -> Iterator[Desk]:
    """An admin of a new tenant; the tenant's rows keep every invariant at the end."""
    desk = Desk(tenant)
    yield desk
    invariants.check(tenant.id, at_rest=False)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[HttpTool]:
    """The outside service in its own process."""
    with HttpTool(tmp_path) as service:
        yield service


@pytest.fixture
def toolpack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the customer's package visible in this process too; the stacks have it anyway."""
    monkeypatch.syspath_prepend(str(TOOLPACK))
    assert str(TOOLPACK) in sys.path
