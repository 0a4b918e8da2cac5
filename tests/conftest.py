"""Fixtures every test may use. Tests commit for real and stand in the web role unless they say otherwise."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import translation

from tests.support import db as support

if TYPE_CHECKING:
    from runtime.models import Tenant
    from tests.support.clock import Clock


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell which PostgreSQL the tests ran on, when they needed one."""
    if support.server().pid() is not None:
        terminalreporter.write_line(support.check_server())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server when the process that started the session ends."""
    if not hasattr(config, "workerinput"):
        support.tear_down()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep tests that share a stack, a browser or a web process in one process."""
    from tests.support.schedule import ByPlace

    return ByPlace(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.fixture(autouse=True)
def _own_language() -> Iterator[None]:
    """Let no test speak the language that a request of the one before asked for."""
    yield
    translation.deactivate()


@pytest.fixture(scope="session")
def database(django_db_blocker: object) -> Iterator[support.Database]:
    """This worker's clone of the migrated template; every test that touches rows stands on it."""
    from django.db import connections

    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        support.set_up()
        yield support.Database(support.worker_database())
        connections.close_all()


@pytest.fixture
def _django_db_helper(database: support.Database) -> None:
    """Take the place of pytest-django's rollback: with it no other process would see a test's rows."""


@pytest.fixture
def db(database: support.Database) -> Iterator[support.Database]:
    """The worker's clone; a test must not leave a transaction open."""
    from django.db import connections

    yield database
    left_open = [alias for alias in connections if connections[alias].in_atomic_block]
    connections.close_all()
    assert not left_open, f"transaction left open on {left_open}"


@pytest.fixture
def transactional_db(db: support.Database) -> support.Database:
    """The same: all our tests are transactional."""
    return db


@pytest.fixture
def fresh_db(database: support.Database) -> Iterator[support.Database]:
    """A clone of its own for this test, for races and processes; both Django aliases point to it meanwhile."""
    from runtime.actions import admission

    fresh = support.Database(f"qd_fresh_{uuid.uuid4().hex[:12]}")
    support.clone(fresh.name)
    with support.switched("default", NAME=fresh.name), support.switched("owner", NAME=fresh.name):
        admission.forget()  # how much waited was counted in another database
        yield fresh
    admission.forget()
    support.drop(fresh.name)


@pytest.fixture
def as_role() -> Callable[[str], AbstractContextManager[None]]:
    """``with as_role("worker"):`` makes the default alias stand in that role: owner, web or worker."""
    return lambda role: support.switched("default", role=role)


@pytest.fixture
def test_database(request: pytest.FixtureRequest) -> support.Database:
    """Where this test's rows lie: ``fresh_db`` when the test asks for one in whatever order, else the worker's."""
    return request.getfixturevalue("fresh_db" if "fresh_db" in request.fixturenames else "db")


@pytest.fixture
def tenant(test_database: support.Database) -> Tenant:
    """A new tenant."""
    from tests.support.factories import make_tenant

    return make_tenant()


@pytest.fixture
def other_tenant(test_database: support.Database) -> Tenant:
    """Another one: what belongs to it must stay out of sight."""
    from tests.support.factories import make_tenant

    return make_tenant()


@pytest.fixture
def clock(test_database: support.Database) -> Iterator[Clock]:
    """The settable clock of the test's database."""
    from tests.support.clock import Clock

    with test_database.connect() as connection:
        clock = Clock(connection)
        yield clock
        clock.reset()
