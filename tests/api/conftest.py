"""Callers of the API in a tenant with tools and one workflow, and a stranger in another such tenant."""

from __future__ import annotations

import pytest

from tests.support.api import Caller, furnish


@pytest.fixture
def admin(tenant) -> Caller:
    """An admin of a tenant that has the workflow ``parcel``."""
    return furnish(tenant)


@pytest.fixture
def stranger(other_tenant) -> Caller:
    """An admin of another tenant."""
    return furnish(other_tenant)
