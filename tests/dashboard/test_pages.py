"""Every page answers the roles that may open it, refuses the others, and never changes anything on GET."""

from __future__ import annotations

import re
import uuid
from html.parser import HTMLParser
from urllib.parse import urljoin

import pytest
from django.urls import reverse

from approvals.models import Request
from dashboard.pages.run import TABS
from dashboard.presenters.consequences import RUN_VERBS, STEP_VERBS
from runtime.models import AuditEntry, Event
from runtime.store.tx import tenant_tx
from tests.support.alarms import about, alert
from tests.support.operations import send
from tests.support.pages import Reader, Scene, node

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
            "/tasks/export.csv",
            "/repairs/export.json",
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
            "/repairs/escalation/",
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
            "/alerts/",
            "/alerts/?state=all&within=all&rule=failed_runs",
            "/states/",
            "/search.json?q=Trip",
        ],
        everybody,
    )
    pages["/members/"] = pages["/members/groups/"] = PEOPLE
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


class Numbers(HTMLParser):
    """The numbers that Now's main part shows outside links, and its links with what they say.

    A time, a time limit and a window's name count nothing; nor do a zero and what a failure itself said.
    """

    NO_COUNT = ({"data-since", "data-due", "datetime"}, {"seg", "m", "z"})
    EMPTY = ("input", "br", "img", "hr", "link", "meta")

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[tuple[str, str]] = []
        self.loose: list[str] = []
        self.links: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        names, classes = self.NO_COUNT
        kind = "link" if tag == "a" and given.get("href") else ""
        if tag in ("thead", "svg") or names & set(given) or classes & set((given.get("class") or "").split()):
            kind = "no count"
        if tag == "span" and (given.get("class") or "") == "n":
            kind = "no count"
        if kind == "link":
            self.links.append([given["href"] or "", ""])
        if tag not in self.EMPTY:
            self.stack.append((tag, kind))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            while self.stack.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        kinds = {kind for _tag, kind in self.stack}
        if "link" in kinds:
            self.links[-1][1] += data
        elif re.search(r"\d", data) and "no count" not in kinds:
            self.loose.append(data.strip())


def test_every_number_on_now_leads_to_the_list_it_counts(made, admin):
    """Each is a link, and each link is followed: a list of runs shows as many as it said."""
    engine, tenant = made.engine, made.tenant
    run_id = engine.submit({"format": "quarterdeck/1", "name": "lost", "nodes": [node("only")]}, {}, name="Lost 7")
    (claimed,) = [one for one in engine.claim() if one.run_id == run_id]
    send(engine, claimed, "refund:1")
    engine.report(claimed, "unknown", operation_status="unknown")
    engine.submit({"format": "quarterdeck/1", "name": "waits", "nodes": [node("only")]}, {}, name="Waits")
    alert(tenant, "worker_lost", about("worker"), about("worker"))
    alert(tenant, "quarantined", about("message"))
    alert(tenant, "failed_runs", about("run", made.runs["failed"]))
    for role in ("admin", "viewer"):
        reader = Reader(tenant, role)
        found = Numbers()
        found.feed(reader.get("/now/").split("<main")[1].split("</main>")[0].partition(">")[2])
        assert found.loose == []
        said = " ".join(text for _url, text in found.links)
        assert "1 in doubt" in said
        assert re.search(r"\d+ of \d+", said), "workers"
        assert len(found.links) >= 12
        for address, number in found.links:
            listed = reader.get(urljoin("/now/", address.partition("#")[0]))
            if address.startswith("/runs/?") and number.strip().isdigit():
                assert len(re.findall(r'<tr data-href="/runs/', listed)) == int(number), address
            elif "in doubt" in number:
                assert len(re.findall(r'<tr data-href="/runs/', listed)) == 1
