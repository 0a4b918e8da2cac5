"""A running step as its worker's heartbeats tell of it: the drawer follows, and nothing runs over (C2.8)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from runtime.tools.showing import Showing
from runtime.worker.drain import Drain
from runtime.worker.session import Session, host_name, renew_host
from tests.support.screens import Screen
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C2.8")


@pytest.fixture
def call(screen: Screen) -> Iterator[tuple[uuid.UUID, Drain, Showing]]:
    """A step in the hands of a worker; its call tells what the test lets it tell."""
    engine = screen.made.engine
    drain = Drain(Session())
    run_id = engine.submit(workflow(tool("read_the_archive"), name="long"))
    claimed = next(one for one in drain.claimer.claim(engine.tenant.id, "default", 100) if one.run_id == run_id)
    drain.session.lease.beat(1, 0)
    yield run_id, drain, drain.running.places.take(claimed)
    drain.session.end()


def beat() -> None:
    renewed, _ended = renew_host(host_name())
    assert renewed == 1


def test_the_drawer_of_a_running_step_follows_its_heartbeats(screen: Screen, call) -> None:
    run_id, drain, showing = call
    showing.progress(1, 4, "reading_pages")
    beat()
    screen.sign_in("admin")
    page = screen.open(f"/runs/{run_id}/?step=read_the_archive")
    told = page.locator("#drawer .prog")
    expect(told).to_contain_text("1/4")
    expect(page.locator("#drawer")).to_contain_text("reading_pages")
    showing.progress(3, 4, "writing")
    drain.session.lease.beat(1, 0)
    beat()
    expect(told).to_contain_text("3/4")
    expect(page.locator("#drawer")).to_contain_text("writing")
    assert screen.violations() == []


@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_of_workers_has_room_for_what_they_tell(screen: Screen, call, width: int) -> None:
    _run_id, _drain, showing = call
    showing.progress(123_456, 1_234_567, "comparing_every_payment")
    beat()
    screen.sign_in("admin")
    screen.page.set_viewport_size({"width": width, "height": 900})
    page = screen.open("/workers/")
    expect(page.locator("main")).to_contain_text("123456/1234567")
    assert screen.overflow() == []
    assert screen.violations() == []
