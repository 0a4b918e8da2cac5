"""An office whose payments need a person."""

from __future__ import annotations

import pytest

from tests.support.office import Office


@pytest.fixture
def office(tenant) -> Office:
    """The tenant's office."""
    return Office(tenant)
