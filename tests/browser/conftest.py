"""A real Chromium on a real daphne. Without the browser these tests skip and say so; in CI they fail instead."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from runtime.models import Tenant
from tests.support import db as support
from tests.support.pages import Scene, scene
from tests.support.patience import patient
from tests.support.screens import Screen
from tests.support.web import Web

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Playwright's synchronous API runs a loop in this thread; the tests' own queries stand beside it, never inside it.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
expect.set_options(timeout=1_000 * patient(5))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here."""
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session", autouse=True)
def chromium() -> str:
    """The installed browser."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium is missing in CI: install the package chromium.")
        pytest.skip("NO BROWSER TEST RAN: Chromium is missing. On Debian: apt-get install chromium.")
    return CHROMIUM


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any], chromium: str) -> dict[str, Any]:
    """Debian's browser instead of one that playwright would download; the flags are for root in a container."""
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
    return {**browser_type_launch_args, "executable_path": chromium, "args": flags}


@pytest.fixture(scope="session")
def site(database: support.Database, chromium: str) -> Iterator[Web]:
    """The web process on this worker's database."""
    with Web(database) as web:
        yield web


@pytest.fixture
def made(tenant: Tenant) -> Scene:
    """A tenant with something in every list."""
    return scene(tenant)


@pytest.fixture
def screen(site: Web, context: BrowserContext, page: Page, made: Scene) -> Iterator[Screen]:
    """A browser window nobody has signed in with yet; its console must stay silent."""
    shown = Screen(site, context, page, made)
    yield shown
    assert shown.complaints == []
