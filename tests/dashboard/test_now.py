"""Now tells what is stopped before anything else, and the menu leads on-call to the runbooks."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest

from runtime.actions.stops import lift_stop, set_stop
from tests.support.actors import member
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("A10.1"), pytest.mark.django_db(transaction=True)]


def stopped(tenant: Any, **more: Any) -> uuid.UUID:
    answer = set_stop(actor=member(tenant, "oncall"), **{"scope": "tool", "name": "core.echo", "reason": "x", **more})
    return uuid.UUID(answer["stop_id"])


def words(page: str) -> str:
    """Return the text of a page's first part, up to the strip of health."""
    main = page.partition('id="main"')[2].partition('<dl class="health"')[0]
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())


def test_now_names_a_standing_stop_first_with_who_why_until_and_the_way_to_lift_it(made, clock):
    stop = stopped(made.tenant, reason="the shop books <b>twice</b>", until=clock.now() + timedelta(hours=2))
    page = Reader(made.tenant, "oncall").get("/now/")
    said = words(page)
    assert "Stopped: Tool core.echo until" in said
    assert "the shop books &lt;b&gt;twice&lt;/b&gt;" in said
    assert f'href="/stops/#stop-{stop}">Lift…<' in page
    assert f'id="stop-{stop}"' in Reader(made.tenant, "oncall").get("/stops/")
    viewer = Reader(made.tenant, "viewer").get("/now/")
    assert f'href="/stops/#stop-{stop}">Stops<' in viewer
    assert "Lift…" not in viewer


def test_a_stop_that_is_lifted_or_over_is_named_no_more(made, clock):
    lifted = stopped(made.tenant)
    stopped(made.tenant, scope="tenant", name="", until=clock.now() + timedelta(minutes=1))
    reader = Reader(made.tenant, "viewer")
    assert "This whole tenant" in words(reader.get("/now/"))
    lift_stop(actor=member(made.tenant, "oncall"), stop_id=lifted, reason="mended")
    clock.advance(61)
    assert "Stopped" not in words(reader.get("/now/"))


def test_another_tenants_stop_is_not_named(made, other_tenant):
    stopped(other_tenant)
    assert "Stopped" not in words(Reader(made.tenant, "admin").get("/now/"))


def test_of_many_stops_five_are_shown_and_the_list_has_the_others(made):
    for number in range(6):
        stopped(made.tenant, scope="workflow", name=f"w{number}")
    page = Reader(made.tenant, "viewer").get("/now/")
    assert words(page).count("Stopped:") == 5
    assert words(page).endswith("All of them")
    assert "so nothing is held back" in words(page)


@pytest.mark.req("C8.4")
def test_the_menu_and_the_palette_lead_to_the_runbooks(made):
    page = Reader(made.tenant, "oncall").get("/repairs/runbooks/")
    menu = page.partition('id="side"')[2].partition("</aside>")[0]
    assert re.search(r'<a href="/repairs/runbooks/" title="Runbooks" aria-current="page">', menu)
    palette = page.partition("<template data-pages")[2].partition("</template>")[0]
    assert 'href="/repairs/runbooks/"' in palette
