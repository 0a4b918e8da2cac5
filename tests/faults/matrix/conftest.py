"""The matrix's stack, shop and web: one of each for all cells; the table of results is written at the end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.db import connections

from tests.faults.matrix.cell import BUILD, KINDS, PLACES, Cell
from tests.support import db as support
from tests.support import invariants
from tests.support.api import caller
from tests.support.shop import Shop
from tests.support.web import Web
from tests.support.workers import Desk, Stack

# Two places wait for its end; the others must not see one. The heartbeat may stall for two thirds of it.
LEASE = 6


@pytest.fixture(scope="module")
def matrix_shop(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("matrix")) as shop:
        yield shop


@pytest.fixture(scope="module")
def matrix_database(database: support.Database) -> Iterator[support.Database]:
    """A clone for all cells."""
    clone = support.Database(f"qd_matrix_{uuid.uuid4().hex[:10]}")
    support.clone(clone.name)
    yield clone
    support.drop(clone.name)


@pytest.fixture(scope="module")
def matrix_web(matrix_database: support.Database) -> Iterator[Web]:
    """The API for callbacks: a web process that the first cell with a callback starts."""
    web = Web(matrix_database)
    yield web
    web.forget()


@pytest.fixture(scope="module")
def matrix_stack(matrix_database: support.Database, matrix_web: Web) -> Iterator[Stack]:
    """Four worker processes in two clusters with a short lease."""
    environment = {"SECRET_KEY": settings.SECRET_KEY, "QUARTERDECK_PUBLIC_URL": f"{matrix_web.url}/"}
    limits = {"lease_seconds": LEASE, "poll_seconds": 0.1, "stall_seconds": 30}
    with Stack(matrix_database, workers=2, clusters=2, environment=environment, **limits) as stack:
        yield stack.wait_ready()


@pytest.fixture
def test_database(matrix_stack: Stack) -> Iterator[support.Database]:
    """Both Django aliases point to the stack's database meanwhile."""
    name = matrix_stack.database.name
    with support.switched("default", NAME=name), support.switched("owner", NAME=name):
        yield matrix_stack.database
        connections.close_all()


@pytest.fixture
def cell_of(tenant, matrix_stack: Stack, matrix_shop: Shop) -> Iterator[Callable[[str, str], Cell]]:
    """Make the cell of a place and a kind, in a tenant of its own whose rows keep every invariant at the end."""
    desk = Desk(tenant)

    def make(place: str, kind: str) -> Cell:
        cell = Cell(place, kind, desk, matrix_stack, matrix_shop)
        cell.record.unlink(missing_ok=True)  # of an earlier time; only a cell that holds leaves one
        if kind == "query_no_retry":
            matrix_shop.tell("refund", cell.order, times=None, deduplicate=False)
        return cell

    yield make
    matrix_shop.behave()
    invariants.check(tenant.id, at_rest=False)


@pytest.fixture
def shop_may_call_back(tenant, matrix_shop: Shop, matrix_web: Web) -> None:
    """Give the shop a token under which it may report, to a web process that takes it."""
    if matrix_web.process is None:
        matrix_web.start()
    token = caller(tenant, "integrator").token
    matrix_shop.ask("/control/callback", {"headers": {"authorization": f"Bearer {token}"}})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of the cells that held when they last ran, as a build artifact."""
    if not BUILD.exists():
        return
    rows = {path.stem: json.loads(path.read_text()) for path in BUILD.glob("*.json")}
    lines = ["# Fault matrix", "", "| place | " + " | ".join(KINDS) + " |", "| --- " * (len(KINDS) + 1) + "|"]
    for place in PLACES:
        found = [rows.get(f"{place}-{kind}") for kind in KINDS]
        shown = [
            f"{one['decision']}: {one['business_fact']['effects']} effect(s), {one['business_fact']['run']}"
            if one
            else "no record"
            for one in found
        ]
        lines.append(f"| {place} | " + " | ".join(shown) + " |")
    lines += [""]
    for name in ("compensated-compensable", "paused-idempotent"):
        one = rows.get(name)
        facts = f"{one['business_fact']['effects']} effect(s), {one['business_fact']['run']}" if one else "no record"
        lines.append(f"- {name}: {facts}")
    (BUILD.parent / "fault_matrix.md").write_text("\n".join(lines) + "\n")
