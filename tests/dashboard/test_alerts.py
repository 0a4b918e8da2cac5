"""The page of alerts: open and healed ones, what each is about with a link to it, and where they are sent."""

from __future__ import annotations

import re

import pytest

from runtime.kernel.conf import conf
from tests.support.alarms import about, alert, heal
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("A9.9"), pytest.mark.django_db(transaction=True)]
HOOK = "https://hooks.example/alerts"


@pytest.fixture
def allowed(settings):
    """Let webhooks go to one host."""
    settings.QUARTERDECK = {**settings.QUARTERDECK, "webhook_hosts": ("hooks.example",)}
    conf.cache_clear()
    yield
    settings.QUARTERDECK = {}
    conf.cache_clear()


def rows(page: str) -> list[str]:
    """Return the ids of the alerts that a page lists, in order."""
    return re.findall(r'<tr id="alert-([0-9a-f-]{36})"', page)


def links(page: str, alert_id: object) -> list[str]:
    """Return where the things lead that an alert is about."""
    row = page.split(f'id="alert-{alert_id}"')[1].split("</tr>")[0]
    return re.findall(r'<a class="link[^"]*" href="([^"]*)"', row)


def test_open_ones_are_listed_with_what_they_are_about(made, admin):
    tenant, failed = made.tenant, made.runs["failed"]
    step = about("step", made.runs["held"], "b")
    cases = {
        "worker_lost": (about("worker"), "/workers/#worker-{id}"),
        "quarantined": (about("message"), "/messages/#message-{id}"),
        "circuit_open": (about("breaker"), "/limits/#breaker-{id}"),
        "queue_full": (about("queue"), "/workers/#queues"),
        "queue_old": (step, f"/runs/{made.runs['held']}/?step=b"),
        "failed_runs": (about("run", failed), f"/runs/{failed}/"),
        "unknown_operations": (about("operation", failed), f"/runs/{failed}/operations/"),
    }
    made_ids = {rule: alert(tenant, rule, subject) for rule, (subject, _url) in cases.items()}
    page = admin.get("/alerts/")
    assert {str(one) for one in made_ids.values()} == set(rows(page))
    for rule, (subject, url) in cases.items():
        assert links(page, made_ids[rule]) == [url.format(id=subject["id"])], rule
        admin.get(url.format(id=subject["id"]).partition("#")[0])
    assert rows(admin.get("/alerts/?rule=queue_old")) == [str(made_ids["queue_old"])]
    assert "still open" in page
    assert "not yet: it may heal" in page


def test_what_a_reader_may_not_open_is_named_and_not_linked(made):
    kept = alert(made.tenant, "quarantined", about("message", label="mail: refused"))
    viewer = Reader(made.tenant, "viewer")
    page = viewer.get("/alerts/")
    assert "mail: refused" in page
    assert links(page, kept) == []
    assert f'href="/alerts/?state=open#alert-{kept}"' in viewer.get("/now/")


def test_healed_ones_are_kept_apart_and_bounded_by_time(made, admin, clock):
    first = alert(made.tenant, "failed_runs", about("run", made.runs["failed"]))
    heal(made.tenant, first)
    assert rows(admin.get("/alerts/")) == []
    assert "No alert is open" in admin.get("/alerts/")
    assert rows(admin.get("/alerts/?state=closed")) == [str(first)]
    clock.advance(8 * 86400)
    try:
        fresh = alert(made.tenant, "worker_lost", about("worker"))
        assert rows(admin.get("/alerts/?state=closed")) == []
        assert rows(admin.get("/alerts/?state=all")) == [str(fresh)], "open ones are listed whenever they began"
        assert rows(admin.get("/alerts/?state=all&within=all")) == [str(fresh), str(first)]
    finally:
        clock.reset()


def test_more_than_a_page_goes_on_by_its_cursor(made, admin):
    ids = [str(alert(made.tenant, "worker_lost", about("worker"), age=1000 - n)) for n in range(53)]
    page = admin.get("/alerts/")
    assert "53 alerts, the last one first" in page
    older = re.search(r'rel="next" href="([^"]+)"', page)
    assert older is not None
    rest = admin.get("/alerts/" + older.group(1).replace("&amp;", "&"))
    assert rows(page) + rows(rest) == list(reversed(ids))


def test_what_is_counted_and_not_listed_is_said(made, admin):
    many = [about("run", made.runs["failed"], f"run {n}") for n in range(20)]
    big = alert(made.tenant, "failed_runs", *many, count=33)
    page = admin.get("/alerts/")
    assert "16 others" in page
    assert "and 13 that are not listed here" in page
    assert links(page, big)[-1] == "/runs/?status=failed&amp;within=all"


def test_now_leads_to_what_an_alert_counts(made, admin):
    worker = about("worker")
    one = alert(made.tenant, "worker_lost", worker, age=500)
    alert(made.tenant, "quarantined", about("message"), about("message"), age=400)
    runs = alert(made.tenant, "failed_runs", about("run", made.runs["failed"]), about("run", made.runs["done"]))
    page = admin.get("/now/").split('id="alerts"')[1].split("</section>")[0]
    found = re.findall(r'<a class="link" href="([^"]+)">', page)
    assert found == [f"/alerts/?state=open#alert-{runs}", "/messages/", f"/workers/#worker-{worker['id']}"]
    assert str(one) not in page
    assert 'href="/alerts/"' in page
    for age in range(5):
        alert(made.tenant, "worker_lost", about("worker"), age=age)
    assert ">All 8</a>" in admin.get("/now/"), "it says how many there are beyond those it shows"


def test_targets_are_added_shown_and_removed(made, admin, allowed):
    page = admin.get("/alerts/")
    assert "Whoever is on call gets a mail." in page
    admin.post("/alerts/", {"kind": "mail", "address": "ops@acme.example", "rules": ["worker_lost"]})
    told = admin.post("/alerts/", {"kind": "webhook", "address": HOOK}, 200).content.decode()
    assert re.search(r'id="new-secret">whsec_[^<]+<', told)
    page = admin.get("/alerts/")
    assert "ops@acme.example" in page
    assert HOOK in page
    assert "whsec_" not in page
    again = admin.post("/alerts/", {"kind": "mail", "address": "ops@acme.example"}, 409).content.decode()
    assert "Alerts are sent there already." in again
    for path in re.findall(r'action="(/alerts/targets/[0-9a-f-]+/remove/)"', page):
        admin.post(path, {})
    assert "No target is set" in admin.get("/alerts/")


def test_an_address_that_is_not_allowed_is_refused_and_kept_in_the_form(made, admin):
    for wrong, says in (({"kind": "mail", "address": "nobody"}, "no mail address"), ({"kind": "fax"}, "err")):
        answer = admin.post("/alerts/", wrong, 400).content.decode()
        assert says in answer
    answer = admin.post("/alerts/", {"kind": "webhook", "address": "https://elsewhere.example/"}, 400)
    assert "QUARTERDECK_WEBHOOK_HOSTS" in answer.content.decode()
    assert 'value="https://elsewhere.example/"' in answer.content.decode()
    assert "No target is set" in admin.get("/alerts/")


def test_only_who_manages_notices_sees_and_sets_targets(made):
    oncall = Reader(made.tenant, "oncall")
    assert "Where alerts are sent" not in oncall.get("/alerts/")
    oncall.post("/alerts/", {"kind": "mail", "address": "me@acme.example"}, 403)


def test_alerts_are_the_tenants_own(made, other_tenant):
    alert(made.tenant, "worker_lost", about("worker"))
    assert rows(Reader(other_tenant, "admin").get("/alerts/?state=all&within=all")) == []
