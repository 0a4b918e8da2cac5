"""Runs: filters, keyset pages, the two kinds of empty, search, saved views."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape

import pytest
from django.contrib.auth import get_user_model
from guardian.shortcuts import assign_perm

from approvals.models import Request
from runtime.models import Workflow
from runtime.store.tx import tenant_tx
from tests.support.engine import Engine, force_columns, sweep
from tests.support.factories import make_member
from tests.support.operations import send
from tests.support.pages import Reader, node

ATTENTION = json.dumps({"owner": "oncall", "evidence": "nobody can tell"})


def ids(page: str) -> list[str]:
    return re.findall(r'<tr data-href="/runs/([0-9a-f-]{36})/"', page)


def test_filters_narrow_and_combine(made, admin):
    failed = admin.get("/runs/?status=failed")
    assert ids(failed) == [str(made.runs["failed"])]
    assert str(made.runs["asks"]) in ids(admin.get("/runs/?workflow=trip"))
    assert ids(admin.get("/runs/?error=server_error")) == [str(made.runs["failed"])]
    assert ids(admin.get("/runs/?error=nothing")) == []
    assert len(ids(admin.get("/runs/?status=completed&status=failed"))) == 3


def test_search_finds_by_id_and_by_name(made, admin):
    run_id = str(made.runs["asks"])
    assert ids(admin.get(f"/runs/?q={run_id}")) == [run_id]
    assert ids(admin.get("/runs/?q=4711")) == [run_id]
    assert admin.client.get(f"/search/?q={run_id}")["Location"] == f"/runs/{run_id}/"


def test_search_finds_what_a_pending_decision_is_about(made, admin):
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(run_id=made.runs["asks"])
    asks = str(made.runs["asks"])
    target = request.target or ""
    assert target == "PNR-K7QX2M"
    assert ids(admin.get("/runs/?q=k7qx2m")) == [asks]
    assert admin.client.get("/search/?q=k7qx2m")["Location"] == f"/inbox/{request.id}/"
    found = json.loads(admin.get("/search.json?q=k7qx2m"))["items"]
    assert [(one["kind"], one["label"]) for one in found] == [("approval", target)]


@pytest.mark.req("A10.1")
def test_a_grant_on_one_workflow_shows_in_the_list_where_it_counts(made):
    """Object permissions widen a role: nothing is hidden from it, and only what was granted can be started."""
    viewer = Reader(made.tenant, "viewer")
    assert "/start/" not in viewer.get("/workflows/")
    with tenant_tx(made.tenant.id):
        trip = Workflow.objects.get(name="trip")
    assign_perm("runtime.submit_workflow", get_user_model().objects.get(pk=viewer.user.pk), trip)
    page = viewer.get("/workflows/")
    assert "/workflows/trip/start/" in page
    assert "/workflows/plain/start/" not in page
    assert "/workflows/trip/start/" in viewer.get("/workflows/trip/")
    viewer.get("/workflows/trip/start/")
    viewer.get("/workflows/plain/start/", 403)


def test_runs_are_found_by_the_queue_they_wait_in_and_by_how_long_they_are_open(made, admin, clock):
    night = {"format": "quarterdeck/1", "name": "night", "nodes": [{**node("a"), "pool": "night"}]}
    waiting = str(made.engine.submit(night, {}))
    assert 'value="night"' in admin.get("/runs/")
    assert ids(admin.get("/runs/?pool=night")) == [waiting]
    assert ids(admin.get("/runs/?pool=day")) == []
    assert ids(admin.get("/runs/?age=10m")) == []
    clock.advance(timedelta(minutes=11))
    old = set(ids(admin.get("/runs/?age=10m")))
    assert waiting in old
    assert not old & {str(made.runs[name]) for name in ("done", "failed", "forced")}
    assert ids(admin.get("/runs/?age=1h")) == []


def test_empty_tells_none_exist_from_filters_hide_all(made, admin, other_tenant):
    nobody = Reader(other_tenant, "admin")
    assert "There are no runs yet" in nobody.get("/runs/")
    page = admin.get("/runs/?status=compensating")
    assert "Your filters hide all 7 runs" in page
    assert "Clear filters" in page


def test_keyset_pages_show_each_run_once(tenant):
    engine = Engine(tenant)
    document = {"format": "quarterdeck/1", "name": "many", "nodes": [node("a")]}
    made = {str(engine.submit(document, {})) for _ in range(61)}
    admin = Reader(tenant, "admin")
    first = admin.get("/runs/")
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = admin.get("/runs/" + unescape(following.group(1)))
    assert len(ids(first)) == 50
    assert len(ids(second)) == 11
    assert set(ids(first)) | set(ids(second)) == made
    admin.get("/runs/?cursor=forged", 400)


def test_new_runs_are_counted_not_pushed(made, admin):
    page = admin.get("/runs/")
    after = re.search(r'data-after="([^"]+)"', page)
    assert after is not None
    newest = unescape(after.group(1)).replace("+", "%2B")
    assert json.loads(admin.get(f"/runs/fresh.json?after={newest}"))["count"] == 0
    made.engine.submit({"format": "quarterdeck/1", "name": "plain2", "nodes": [node("a")]}, {})
    assert json.loads(admin.get(f"/runs/fresh.json?after={newest}"))["count"] == 1


def test_new_runs_are_counted_as_the_list_is_filtered(made, admin):
    before = "2020-01-01T00:00:00%2B00:00"

    def count(query: str) -> int:
        return int(json.loads(admin.get(f"/runs/fresh.json?after={before}&{query}"))["count"])

    assert count("") == len(ids(admin.get("/runs/"))) == 7
    assert count("q=4711") == len(ids(admin.get("/runs/?q=4711"))) == 1
    assert count("age=24h") == len(ids(admin.get("/runs/?age=24h"))) == 0
    assert count("effect=unknown") == 0


def test_one_letter_is_no_filter_and_is_not_shown_as_one(made, admin):
    page = admin.get("/runs/?q=T")
    assert len(ids(page)) == 7
    assert "Clear filters" not in page
    assert 'name="q" value=""' in page


def test_a_search_says_how_far_it_looked(made, admin):
    bound = "names and keys of the newest 20,000 tasks and effects, the first 50 finds"
    assert bound in admin.get("/runs/?q=4711")
    assert bound not in admin.get("/runs/")
    page = admin.get("/runs/?q=nowhere")
    assert bound in page
    assert "Nothing was found for" in page
    assert "Your filters hide" not in page


def test_every_number_of_now_leads_to_what_it_counts(made, admin):
    engine = made.engine
    wanted = []
    for key in ("refund:1", "refund:2"):
        run_id = engine.submit({"format": "quarterdeck/1", "name": f"e{key[-1]}", "nodes": [node("only")]}, {})
        (claimed,) = [one for one in engine.claim() if one.run_id == run_id]
        send(engine, claimed, key)
        engine.report(claimed, "unknown", operation_status="unknown")
        wanted.append(str(run_id))
    page = admin.get("/now/")
    link = re.search(r'href="(/runs/\?effect=unknown[^"]*)"><b>(\d+)</b>', page)
    assert link is not None
    assert link.group(2) == "2"
    assert sorted(ids(admin.get(unescape(link.group(1))))) == sorted(wanted)


def test_the_lead_counts_more_runs_than_are_listed(tenant, test_database):
    engine = Engine(tenant)
    document = {"format": "quarterdeck/1", "name": "stuck", "nodes": [node("a")]}
    for _ in range(23):
        run_id = engine.submit(document, {})
        force_columns(test_database, "qd_run", run_id, status="needs_attention", attention=ATTENTION)
    try:
        page = Reader(tenant, "viewer").get("/now/")
        assert '<a class="link" href="/runs/?status=needs_attention&amp;within=all">23</a> runs need a person.' in page
    finally:
        sweep(test_database, tenant.id)


def test_views_are_saved_and_forgotten_by_their_owner(made, admin):
    admin.post("/runs/views/", {"name": "Mine", "query": "status=failed&within=7d&evil=1"})
    page = admin.get("/runs/")
    assert "?status=failed&amp;within=7d" in page
    assert "evil" not in page
    assert ">Mine<" not in Reader(made.tenant, "admin").get("/runs/")
    admin.post("/runs/views/", {"name": "Mine", "query": "pool=night&age=1h&effect=unknown"})
    admin.client.logout()
    admin.client.force_login(admin.user)
    page = admin.get("/runs/")
    assert "?pool=night&amp;age=1h&amp;effect=unknown" in page, "every filter is kept, and it outlives the session"
    assert page.count(">Mine<") == 1, "a name is given once"
    admin.post("/inbox/views/", {"name": "Mine", "query": "risk=high"})
    admin.post("/runs/views/", {"forget": "Mine"})
    assert "?risk=high" in admin.get("/inbox/"), "each list has its own"
    assert ">Mine<" not in admin.get("/runs/")
    admin.post("/runs/views/", {"name": "", "query": ""}, 400)


def test_a_view_is_of_one_tenant_and_there_are_twenty_at_most(made, admin, other_tenant):
    for number in range(20):
        admin.post("/runs/views/", {"name": f"View {number}", "query": "q=abc"})
    admin.post("/runs/views/", {"name": "One more", "query": "q=abc"}, 400)
    page = admin.get("/runs/")
    assert ">View 19<" in page
    assert ">One more<" not in page
    make_member(other_tenant, "admin", admin.user)
    admin.post("/preferences/", {"tenant": other_tenant.slug, "next": "/runs/"})
    assert ">View 0<" not in admin.get("/runs/")
