"""A scene per module: its tests read, or act on runs of their own."""

from __future__ import annotations

import pytest

from runtime.models import Tenant
from tests.support.pages import Reader, Scene, scene


@pytest.fixture
def made(tenant: Tenant) -> Scene:
    return scene(tenant)


@pytest.fixture
def admin(made: Scene) -> Reader:
    return Reader(made.tenant, "admin")
