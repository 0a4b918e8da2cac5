"""A desk: an office whose payments can be lost, and people who repair; a place where others' incidents are replayed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.desk import Desk
from tests.support.engine import sweep
from tests.support.place import Place
from tests.support.shop import Shop
from tests.support.traces import judge


@pytest.fixture
def desk(tenant, test_database: Any) -> Iterator[Desk]:
    """The tenant's repair desk; what people decided at it is judged as the office's approvals are."""
    yield Desk(tenant)
    judge(tenant)
    sweep(test_database, tenant.id)


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    """The outside, in a process of its own, with its own books."""
    with Shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture
def place(fresh_db, tenant, shop) -> Iterator[Place]:
    """A desk alone in its database, that refunds at the shop."""
    yield Place(tenant, shop)
    shop.behave()
