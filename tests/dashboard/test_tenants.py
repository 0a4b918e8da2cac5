"""A page acts in the tenant it was shown in and in no other, whatever another tab has chosen meanwhile."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from approvals.models import Request
from runtime.models import Membership, Tenant
from runtime.queries.stops import list_stops
from runtime.store.links import page_link
from runtime.store.tx import tenant_tx
from tests.dashboard.test_pages import addresses
from tests.support.actors import member
from tests.support.factories import make_member
from tests.support.pages import Reader, Scene

pytestmark = pytest.mark.req("A1.4", "A10.1")
TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
# Forms that act on the reader alone.
OWN = ("/preferences/", "/sign-out/", "/sign-in/")
CHANGED = "You switched tenant; nothing was done."


@pytest.fixture
def both(made: Scene, other_tenant: Tenant) -> Reader:
    """An admin of two tenants."""
    reader = Reader(made.tenant, "admin")
    make_member(other_tenant, "admin", reader.user)
    switch(reader, made.tenant)
    return reader


def switch(reader: Reader, tenant: Tenant) -> None:
    reader.post("/preferences/", {"tenant": tenant.slug, "next": "/now/"})


def standing(tenant: Tenant) -> list[dict[str, Any]]:
    return list_stops(actor=member(tenant, "admin"), standing=True)


def test_a_stale_tab_acts_in_no_other_tenant(both: Reader, made: Scene, other_tenant: Tenant):
    stop = {"scope": "tenant", "name": "", "reason": "they pay twice"}
    form = both.form(both.get("/stops/"))
    assert form["shown_tenant"] == made.tenant.slug
    switch(both, other_tenant)
    page = both.post("/stops/", {**form, **stop}, 409).content.decode()
    assert CHANGED in page
    newcomer = member(made.tenant, "viewer")
    assert CHANGED in both.post("/members/", {**form, "username": newcomer.name, "role": "admin"}, 409).content.decode()
    both.post("/tokens/", {**form, "name": "ci", "days": "7"}, 409)
    assert not standing(made.tenant)
    assert not standing(other_tenant)
    with tenant_tx(other_tenant.id):
        assert not Membership.objects.filter(user_id=newcomer.user_id).exists()
    switch(both, made.tenant)
    both.post("/stops/", {**form, **stop})
    assert len(standing(made.tenant)) == 1


def test_what_a_script_sends_is_held_to_its_page_too(both: Reader, made: Scene, other_tenant: Tenant):
    """The header comes from the page around a dialog, the field from the dialog: both have to be of this tenant."""
    run_id = made.runs["asks"]
    address = f"/runs/{run_id}/verbs/pause/"
    form = {**both.form(both.get(address)), "reason": "lunch"}
    elsewhere = {"HX-Request": "true", "X-Shown-Tenant": other_tenant.slug}
    both.post(address, form, 409, headers=elsewhere)
    assert made.engine.run(run_id).status == "waiting_approval"
    here = {"HX-Request": "true", "X-Shown-Tenant": made.tenant.slug}
    both.post(address, form, 204, headers=here)
    assert made.engine.run(run_id).status == "paused"


def test_a_form_that_names_no_tenant_is_refused(admin: Reader, made: Scene):
    answer = admin.client.post("/stops/", {"scope": "tenant", "reason": "a form of our own"})
    assert answer.status_code == 400
    assert "does not say for which tenant" in answer.content.decode()
    assert not standing(made.tenant)


@pytest.mark.req("A7.2")
def test_a_link_from_a_mail_finds_its_tenant_and_switches_nothing_by_itself(
    both: Reader, made: Scene, other_tenant: Tenant
):
    with tenant_tx(made.tenant.id) as tx:
        request = Request.objects.get(run_id=made.runs["asks"])
        link = page_link(tx, f"/inbox/{request.id}/")
    path = link.removeprefix("http://127.0.0.1:8000")
    assert request.title in unescape(both.get(path)), "in its own tenant it is just the page"
    switch(both, other_tenant)
    both.get(f"/inbox/{request.id}/", 404)
    page = both.get(path)
    assert f"Switch to {made.tenant.name}" in page
    assert request.title not in unescape(page)
    both.get(f"/inbox/{request.id}/", 404)
    answer = both.post("/preferences/", {"tenant": made.tenant.slug, "next": both.form(page)["next"]})
    assert answer["Location"] == f"/inbox/{request.id}/"
    assert request.title in unescape(both.get(answer["Location"]))
    Reader(other_tenant, "admin").get(path, 404)


def forms(page: str) -> list[str]:
    """Return the forms of a page that act on more than the reader."""
    found = re.findall(r"<form\b[^>]*\bmethod=\"post\".*?</form>", page, re.DOTALL)
    return [one for one in found if not any(f'action="{own}"' in one for own in OWN)]


def test_every_form_that_acts_says_where_it_was_shown(admin: Reader, made: Scene):
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(run_id=made.runs["asks"])
    step = made.engine.step(made.runs["failed"], "a")
    paths = [*addresses(made), f"/runs/{made.runs['asks']}/verbs/cancel/", f"/steps/{step.id}/verbs/rerun/"]
    paths += [f"/inbox/{request.id}/acts/claim/", "/workflows/trip/start/"]
    seen = 0
    for path in paths:
        answer = admin.client.get(path)
        if answer["Content-Type"].startswith("text/html"):
            for form in forms(answer.content.decode()):
                seen += 1
                assert f'name="shown_tenant" value="{made.tenant.slug}"' in form, path
    assert seen > 20


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_no_template_forgets_it(path: Path):
    """Also those whose forms stand for a few readers only."""
    for form in forms(path.read_text()):
        if "csrf_token" in form and not re.search(r"url '(preferences|sign-out|sign-in)'", form):
            assert '{% csrf_token %}{% include "components/shown.html" %}' in form
