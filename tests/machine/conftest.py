"""The engine under a test's hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.engine import Engine, sweep


@pytest.fixture
def engine(tenant, test_database: Any) -> Iterator[Engine]:
    """The tenant's engine, driven by hand."""
    yield Engine(tenant)
    sweep(test_database, tenant.id)
