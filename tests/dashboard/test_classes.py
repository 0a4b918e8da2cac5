"""Classes of work on pages: the queue's page and Now say what waits past the start of its class, in both languages."""

from __future__ import annotations

import re
import uuid

import pytest

from tests.support.pages import Reader, Scene
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C7.2"), pytest.mark.django_db(transaction=True)]


def late(made: Scene) -> uuid.UUID:
    """Submit a run whose step waits, of the class interactive."""
    return made.engine.submit(workflow(tool("a"), name="lone"), priority=60)


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def part(page: str, heading: str) -> str:
    """Return the words of the section under the heading of that id."""
    return words(page.partition(f'aria-labelledby="{heading}"')[2].partition("</section>")[0].partition(">")[2])


def oldest(page: str) -> str:
    """Return the words of the health strip's cell about the queue."""
    (cell,) = [one for one in re.findall(r"<dt>.*?</dd>", page, re.S) if "Oldest queued" in one]
    return words(cell)


def test_the_queues_page_names_classes_with_their_aims_and_who_is_late(made, admin, clock):
    run = late(made)
    clock.advance(31)
    page = admin.get("/workers/")
    assert "interactive 60 30 s – 1 1 " in part(page, "classes")
    assert "a interactive" in part(page, "late")
    assert f'href="/runs/{run}/?step=a"' in page
    admin.post("/preferences/", {"language": "zh-hans", "next": "/workers/"})
    assert "交互 60" in part(admin.get("/workers/"), "classes")


def test_now_says_that_steps_are_past_their_start(made, clock):
    reader = Reader(made.tenant, "viewer")
    before = oldest(reader.get("/now/"))
    late(made)
    clock.advance(31)
    page = reader.get("/now/")
    assert "past the start of" in oldest(page)
    assert "past the start of" not in before


def test_a_step_and_its_task_say_their_class(made, admin):
    run = late(made)
    assert "default, 60 · interactive" in words(admin.get(f"/runs/{run}/?step=a"))
    assert "default, 60 · interactive" in words(admin.get(f"/tasks/{made.engine.run(run).task_id}/"))


@pytest.mark.req("B11.1")
def test_the_queues_page_says_of_a_pool_that_nobody_serves_it(made, admin):
    for pool in ("moon", "default"):
        made.engine.submit(workflow(tool("a", pool=pool), name=f"in-{pool}"))
    queues = admin.get("/workers/").partition('id="queues"')[2].partition("</section>")[0]
    rows = dict(re.findall(r"<tr><td>(\w+)(.*?)</td>", queues))
    assert "no worker serves it" in rows["moon"]
    assert rows["default"] == ""
