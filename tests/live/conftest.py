"""A real daphne on a test's database, and an engine driven by hand beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.db import Database
from tests.support.web import Web


@pytest.fixture(autouse=True)
def _rows_beside_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test's coroutine look at rows: nothing else runs in its loop but the readers it waits for."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")


@pytest.fixture(scope="module")
def web(database: Database) -> Iterator[Web]:
    """A daphne on this worker's clone, for a module's tests."""
    with Web(database) as server:
        yield server


@pytest.fixture
def own_web(test_database: Database) -> Iterator[Web]:
    """A daphne of this test's own, that it may stop."""
    with Web(test_database) as server:
        yield server
