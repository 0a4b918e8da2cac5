"""Every page answers the roles that may open it, refuses the others, and never changes anything on GET."""

from __future__ import annotations

import re
import uuid

import pytest
from django.urls import reverse

from approvals.models import Request
from dashboard.pages.run import TABS
from dashboard.presenters.consequences import RUN_VERBS, STEP_VERBS
from runtime.models import AuditEntry, Event
from runtime.store.tx import tenant_tx
from tests.support.pages import Reader, Scene

ROLES = ("viewer", "approver", "oncall", "admin", "finance", "integrator", "verifier")
AUDITORS = {"oncall", "admin", "finance"}
PEOPLE = {"approver", "oncall", "admin", "finance"}


def addresses(made: Scene) -> dict[str, set[str]]:
    """Return path → the roles that may open it, for every page of the console."""
    everybody = set(ROLES)
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(run_id=made.runs["asks"])
    pages = dict.fromkeys(
        [
            "/now/",
            "/now/?within=1",
            "/runs/",
            "/runs/?status=failed&within=1h",
            "/runs/?q=Trip&workflow=trip&error=server_error",
            "/runs/?within=all&status=nonsense&cursor=",
            "/runs/fresh.json?after=2020-01-01T00:00:00%2B00:00",
            "/runs/export.csv",
            "/runs/export.json",
            "/tasks/",
            "/inbox/",
            "/inbox/?view=all",
            "/inbox/?view=decided",
            "/inbox/export.csv",
            "/inbox/records.json",
            "/inbox/statistics/",
            "/inbox/statistics/?days=365",
            "/repairs/",
            "/repairs/?view=resolved",
            "/repairs/shift/",
            "/repairs/runbooks/",
            f"/inbox/{request.id}/",
            "/workflows/",
            "/workflows/trip/",
            "/workflows/trip/?version=1",
            "/tools/",
            "/tools/core.echo/",
            "/workers/",
            "/tokens/",
            "/stops/",
            "/limits/",
            "/states/",
            "/search.json?q=Trip",
        ],
        everybody,
    )
    pages["/members/"] = PEOPLE
    pages["/messages/"] = {"oncall", "admin"}
    pages["/policy/"] = pages["/webhooks/"] = {"admin"}
    pages["/audit/"] = pages["/audit/export.json"] = AUDITORS
    for run_id in made.runs.values():
        for tab in TABS:
            pages[reverse("run-tab", args=[run_id, tab])] = AUDITORS if tab == "audit" else everybody
    for part in ("overview", "attempts", "content", "events", "why"):
        pages[f"/runs/{made.runs['retries']}/?step=a&part={part}"] = everybody
    pages[f"/runs/{made.runs['failed']}/why/?node=b"] = everybody
    pages[f"/runs/{made.runs['failed']}/timeline/?sort=critical"] = everybody
    pages[f"/runs/{made.runs['failed']}/events/?after=2&seq=3&node=a"] = everybody
    pages[f"/tasks/{made.engine.run(made.runs['asks']).task_id}/"] = everybody
    return pages


@pytest.mark.parametrize("role", ROLES)
def test_each_role_sees_what_it_may(made, role):
    reader = Reader(made.tenant, role)
    for path, allowed in addresses(made).items():
        reader.get(path, 200 if role in allowed else 403)


def test_who_is_not_signed_in_is_sent_to_sign_in_and_back(made, client):
    for path in addresses(made):
        answer = client.get(path)
        assert answer.status_code == 302
        assert answer["Location"].startswith("/sign-in/?next=%2F")


def test_another_tenants_member_finds_nothing(made, other_tenant):
    """Invariant 8: other tenants' ids are answered like ids that do not exist."""
    stranger = Reader(other_tenant, "admin")
    for path in addresses(made):
        if re.search(r"[0-9a-f]{8}-", path) or "/trip/" in path or "core.echo" in path:
            stranger.get(path, 404)
    for path in ("/runs/?within=all", "/tasks/", "/inbox/?view=all", "/workflows/", "/now/", "/audit/"):
        assert "Trip 4711" not in stranger.get(path)
    assert "Trip" not in stranger.get("/runs/export.csv?within=all")
    assert stranger.get("/search.json?q=Trip").count('"url"') == 0


def test_nothing_is_changed_by_looking(made, admin):
    """A link preview or a mail scanner that opens every address, also those of the verbs, decides nothing."""

    def ledger() -> tuple[int, int, list[str]]:
        with tenant_tx(made.tenant.id):
            return (
                Event.objects.count(),
                AuditEntry.objects.count(),
                list(Request.objects.order_by("id").values_list("state", flat=True)),
            )

    before = ledger()
    for path in addresses(made):
        admin.get(path)
    for run_id in made.runs.values():
        for verb in RUN_VERBS:
            admin.get(f"/runs/{run_id}/verbs/{verb}/")
    step = made.engine.step(made.runs["failed"], "a")
    for verb in STEP_VERBS:
        admin.get(f"/steps/{step.id}/verbs/{verb}/")
    admin.get("/workflows/trip/start/")
    for path in ("/sign-out/", "/preferences/", "/runs/views/", f"/tokens/{uuid.uuid4()}/revoke/"):
        admin.get(path, 405)
    assert ledger() == before


def test_pages_carry_no_inline_code_or_style_and_say_so(made, admin):
    for path in addresses(made):
        answer = admin.client.get(path)
        if not answer["Content-Type"].startswith("text/html"):
            continue
        page = answer.content.decode()
        assert "script-src 'self'" in answer["Content-Security-Policy"]
        assert not re.search(r"<script(?![^>]*\bsrc=)", page), path
        assert not re.search(r"<[^>]+\s(style|onclick|onload|hx-on[:\w-]*)=", page), path
        assert "<script>alert" not in page
        assert "<b>trip</b>" not in page
        assert not re.search(r"\{[{%]", page), path


def test_unknown_addresses_say_so_in_the_shell(admin):
    page = admin.get("/no/such/page/", 404)
    assert "No page has this address." in page
    assert admin.get(f"/runs/{uuid.uuid4()}/", 404).count("There is nothing here") >= 1
    admin.get(f"/runs/{uuid.uuid4()}/nonsense/", 404)
    admin.get("/runs/not-an-id/", 404)
    admin.get("/steps/not-an-id/", 404)


def test_what_a_role_may_not_read_is_not_on_the_page(made):
    """A9.8: inputs, outputs and payloads need payload.read."""
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(run_id=made.runs["asks"])
    shown = Reader(made.tenant, "approver").get(f"/inbox/{request.id}/")
    hidden = Reader(made.tenant, "viewer").get(f"/inbox/{request.id}/")
    assert "412.60" in shown
    assert "412.60" not in hidden
    assert "You may not read this payload" in hidden
    task = made.engine.run(made.runs["asks"]).task_id
    assert "You may not read this input" in Reader(made.tenant, "finance").get(f"/tasks/{task}/")


def test_every_number_on_now_leads_to_the_list_it_counts(made, admin):
    page = admin.get("/now/")
    links = re.findall(r'href="(/runs/\?[^"]+)"[^>]*>(\d+)<', page)
    assert len(links) >= 6
    for address, number in links:
        listed = admin.get(address.replace("&amp;", "&"))
        assert len(re.findall(r'<tr data-href="/runs/', listed)) == int(number), address
