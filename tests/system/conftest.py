"""Real workers for the tests that need them: one stack per pytest process, started once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import db as support
from tests.support import invariants
from tests.support.http_tool import HttpTool
from tests.support.workers import Desk, Stack


@pytest.fixture(scope="session")
def shared_stack(database: support.Database) -> Iterator[Stack]:
    """Two worker processes, heartbeat and scheduler on a clone of their own."""
    clone = support.Database(f"qd_stack_{uuid.uuid4().hex[:10]}")
    support.clone(clone.name)
    with Stack(clone) as stack:
        yield stack.wait_ready()
    support.drop(clone.name)


@pytest.fixture
def stack(shared_stack: Stack) -> Iterator[Stack]:
    """The shared stack; both Django aliases point to its database meanwhile."""
    from django.db import connections

    name = shared_stack.database.name
    with support.switched("default", NAME=name), support.switched("owner", NAME=name):
        yield shared_stack
        connections.close_all()


@pytest.fixture
def test_database(request: pytest.FixtureRequest) -> support.Database:
    """Where this test's rows lie: the stack's clone when the test has one."""
    if "stack" in request.fixturenames:
        return request.getfixturevalue("stack").database
    return request.getfixturevalue("fresh_db" if "fresh_db" in request.fixturenames else "db")


@pytest.fixture
def desk(tenant) -> Iterator[Desk]:
    """An admin of a new tenant; the tenant's rows keep every invariant at the end."""
    desk = Desk(tenant)
    yield desk
    invariants.check(tenant.id)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[HttpTool]:
    """The outside service in its own process."""
    with HttpTool(tmp_path) as service:
        yield service
