"""A database of its own for each race; its rows keep every invariant, and the server has seen no deadlock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import db as support
from tests.support import invariants
from tests.support.engine import Engine
from tests.support.race import deadlocks
from tests.support.traces import judge


@pytest.fixture
def engine(fresh_db: support.Database, tenant) -> Iterator[Engine]:
    """A tenant's engine under the test's hand."""
    engine = Engine(tenant)
    yield engine
    invariants.check(tenant.id, at_rest=False)
    judge(tenant)
    assert deadlocks(fresh_db) == 0
