"""The graph of a run as it stood after an event: plainly the past, from the events alone, asked for by a form."""

from __future__ import annotations

import re

import pytest

from runtime.models import Event
from runtime.store.tx import tenant_tx
from tests.support.engine import force_columns, past_every_guard
from tests.support.pages import Reader, Scene
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C6.1", "C7.9"), pytest.mark.django_db(transaction=True)]


def seq_of(made: Scene, name: str, type: str) -> int:
    """Return the seq of the first event of a type in a run of the scene."""
    return next(one.seq for one in made.engine.events(made.runs[name]) if one.type == type)


def lanes(page: str) -> list[str]:
    """Return the state of each node in the list that stands where the drawing will be."""
    return re.findall(r'<li class="lane st-(\w+)"', page)


def test_the_page_shows_what_the_events_said_then_and_what_has_changed_since(made: Scene, admin: Reader):
    run, seq = made.runs["done"], seq_of(made, "done", "STEP_STARTED")
    head = made.engine.run(run).seq
    page = admin.get(f"/runs/{run}/?until={seq}")
    assert f"The past: as it stood after event {seq} of {head}" in page
    assert "What stands above is of now." in page
    assert "All its events together give exactly what is stored." in page
    assert lanes(page) == ["running", "waiting"]
    changed = re.findall(r'st-(\w+) plain">', page.partition('id="since"')[2])
    assert changed == ["running", "succeeded", "waiting", "succeeded"]
    assert f'data-until="{seq}"' in page
    for live in ("data-refresh", "data-step-url", 'data-after="'):
        assert live not in page, live
    assert lanes(admin.get(f"/runs/{run}/?until={head}")) == ["succeeded", "succeeded"]
    assert "No step's state." in (whole := admin.get(f"/runs/{run}/?until={head}")), whole


def test_one_goes_from_event_to_event_by_links_and_by_a_form(made: Scene, admin: Reader):
    run, head = made.runs["done"], made.engine.run(made.runs["done"]).seq
    events = admin.get(f"/runs/{run}/events/")
    assert f'href="/runs/{run}/?until=2"' in events
    (form,) = re.findall(r'<form class="asof".*?</form>', events, re.DOTALL)
    assert 'method="get"' in form
    assert f'max="{head}"' in form
    page = admin.get(f"/runs/{run}/?until=2")
    assert re.findall(r'href="\?until=(\d+)"', page) == ["1", "3"]
    assert re.findall(r'href="\?until=(\d+)"', admin.get(f"/runs/{run}/?until=1")) == ["2"]
    for asked, shown in (("0", 1), ("99999", head), ("", head), ("x", head), ("9" * 40, head), ("-1", head)):
        assert f"after event {shown} of {head}" in admin.get(f"/runs/{run}/?until={asked}"), asked
    Reader(made.tenant, "viewer").get(f"/runs/{run}/?until=2")


def test_rows_that_differ_from_the_events_are_shown(made: Scene, admin: Reader, database):
    step = made.engine.step(made.runs["done"], "a")
    force_columns(database, "qd_step", step.id, attempt=9)
    page = admin.get(f"/runs/{made.runs['done']}/?until=1")
    assert "differ from what is stored in 1 place:" in page
    assert "step a@1 attempt: events say 1, the row says 9" in page
    force_columns(database, "qd_step", step.id, attempt=step.attempt)


def test_a_past_whose_events_are_gone_says_so(made: Scene, admin: Reader, database):
    run = made.engine.submit(workflow(tool("a"), name="short"))
    with past_every_guard(database) as connection:
        connection.execute("DELETE FROM qd_event WHERE run_id = %s AND seq = 1", [run])
    page = admin.get(f"/runs/{run}/?until=1")
    assert "This past can&#x27;t be told any more" in page or "This past can't be told any more" in page
    assert 'id="graph"' not in page
    with past_every_guard(database) as connection:
        connection.execute("DELETE FROM qd_step WHERE run_id = %s", [run])
        connection.execute("DELETE FROM qd_run WHERE id = %s", [run])


def test_outputs_are_called_what_they_are(made: Scene, admin: Reader):
    done, failed = made.runs["done"], made.runs["failed"]
    assert "tool&#x27;s result" in admin.get(f"/runs/{done}/?step=a&part=content").replace(
        "'s result", "&#x27;s result"
    )
    events = admin.get(f"/runs/{done}/events/")
    assert "final result" in events
    assert '<span class="badge">failure</span>' in admin.get(f"/runs/{failed}/events/")
    assert '<span class="badge">failure</span>' in admin.get(f"/runs/{failed}/?step=a&part=attempts")
    forced = admin.get(f"/runs/{made.runs['forced']}/?step=a")
    assert re.search(r"a person(&#x27;|')s decision", forced)
    file = admin.get("/runs/export.json?within=all")
    assert '"output_kind":"final"' in file
    assert '"output_kind":"failure"' in file


def test_the_past_in_chinese(made: Scene, admin: Reader):
    admin.post("/preferences/", {"language": "zh-hans", "next": "/now/"})
    page = admin.get(f"/runs/{made.runs['done']}/?until=2")
    with tenant_tx(made.tenant.id):
        head = Event.objects.filter(run_id=made.runs["done"]).count()
    assert f"过去：第 2 个事件之后的状态（共 {head} 个）" in page
    assert "回到现在" in page
    assert "The past" not in page
