"""The example tenant with real workers and its real shop: refunds, the approval between them, runs in every state."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from io import StringIO
from typing import Any
from urllib.request import Request, urlopen

import pytest
from django.core.management import call_command

from approvals.queries import get_request, list_requests
from dashboard.example import setup
from dashboard.example.seed import Seed
from repair.runbooks import list_runbooks
from runtime.queries.alerts import list_alerts
from runtime.queries.people import list_workers
from runtime.queries.run_parts import list_operations
from runtime.queries.tasks import read_outcome
from runtime.store import directory
from tests.support import invariants
from tests.support.console import ROOT, wait_for
from tests.support.workers import until

pytestmark = [pytest.mark.req("A7.1", "C5.3"), pytest.mark.django_db(transaction=True)]


class Shop:
    """The shop's process, and what its books say."""

    def __init__(self, place: setup.Place) -> None:
        self.url = place.url
        self.process = subprocess.Popen(setup.shop_command(place), cwd=ROOT)
        wait_for(self.answers, 10, "the shop")

    def answers(self) -> bool:
        try:
            return self.ask("/")["shop"] == "acme"
        except OSError:
            return False

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data=data), timeout=5) as answer:
            return json.load(answer)

    def refunds(self, order_id: str) -> list[str]:
        """Return the amounts paid back for an order."""
        return [one["amount"] for one in self.ask(f"/refunds?order_id={order_id}")["items"]]

    def mails(self, order_id: str) -> list[str]:
        return [one["to"] for one in self.ask(f"/mails?order_id={order_id}")["items"]]


@pytest.fixture
def shop(stack, settings, tmp_path) -> Iterator[Shop]:
    """The example, made anew in the stack's database, with its shop."""
    settings.QUARTERDECK_DATA = tmp_path
    shop = Shop(setup.ensure().place)
    yield shop
    shop.process.kill()
    shop.process.wait()
    for tenant in directory.all_tenants():
        if tenant.slug == setup.SLUG:
            invariants.check(tenant.id, at_rest=False)


@pytest.fixture
def acme(shop) -> Seed:
    """The people of the example."""
    return Seed()


def ends(acme: Seed, run_id: uuid.UUID) -> str:
    return until(lambda: (s := acme.status(run_id)) in ("completed", "failed", "needs_attention") and s, 30, "an end")


def task_of(acme: Seed, run_id: uuid.UUID) -> uuid.UUID:
    from runtime.queries.runs import read_run

    return read_run(actor=acme.admin, run_id=run_id)["task_id"]


@pytest.mark.req("A2.4", "A2.5", "C3.3")
def test_a_refund_end_to_end(shop, acme):
    exact, above = acme.submit(
        "refund", [{"order_id": "T-1", "amount": "100.00"}, {"order_id": "T-2", "amount": "100.01"}]
    )
    assert ends(acme, exact) == "completed"
    assert list_requests(actor=acme.admin, state=None, run_id=exact).items == []
    assert shop.refunds("T-1") == ["100.00"]
    receipts = {one["tool"].split("@")[0]: one for one in list_operations(actor=acme.admin, run_id=exact)}
    refund = shop.ask("/refunds?order_id=T-1")["items"][0]
    assert receipts["shop.refund"]["external_ref"] == refund["refund_id"], "the number that the shop's books have"
    assert receipts["shop.mail"]["external_ref"].startswith("M-")
    outcome = read_outcome(actor=acme.admin, task_id=task_of(acme, exact))
    assert (outcome["outcome"]["verdict"], outcome["outcome"]["verifier"]) == ("achieved", "refund_in_books@1")
    assert outcome["evidence"][0]["content"]["status"] == "paid"
    # Above 100 a person decides, and what they were shown is what is done.
    row = until(lambda: acme.request(above), 20, "a request")
    assert (acme.status(above), shop.refunds("T-2")) == ("waiting_approval", [])
    shown = get_request(actor=acme.approver, request_id=row["id"])["shown"]
    assert shown["payload"]["amount"] == "100.01"
    (call,) = shown["calls"]
    assert (call["tool"].split("@")[0], call["arguments"]["amount"]) == ("shop.refund", "100.01")
    acme.decide(above, "approve", "looks right")
    assert ends(acme, above) == "completed"
    assert shop.refunds("T-2") == ["100.01"]
    assert len(shop.mails("T-2")) == 1
    assert get_request(actor=acme.approver, request_id=row["id"])["state"] == "consumed"


def test_an_order_that_changed_meanwhile_is_not_paid(shop, acme):
    (run_id,) = acme.submit("refund", [{"order_id": "T-3", "amount": "500"}])
    until(lambda: acme.request(run_id), 20, "a request")
    shop.ask("/orders/T-3", {"note": "the customer has moved"})
    acme.decide(run_id, "approve", "seen before the change")
    assert ends(acme, run_id) == "failed"
    assert shop.refunds("T-3") == []


def test_a_rejected_refund_pays_nothing(shop, acme):
    (run_id,) = acme.submit("refund", [{"order_id": "T-4", "amount": 101}])
    acme.decide(run_id, "reject", "no")
    assert ends(acme, run_id) == "failed"
    assert (shop.refunds("T-4"), shop.mails("T-4")) == ([], [])


@pytest.mark.req("A9.9")
def test_the_seed_leaves_no_page_empty_and_reset_begins_again(shop, acme, stack):
    def example(act: str) -> dict[str, Any]:
        out = StringIO()
        call_command("example", act, stdout=out)
        return json.loads(out.getvalue())

    # Other tests of this module have left runs: a fresh tenant has none.
    before = hashes()
    again = example("reset")
    assert again["retired"].startswith("acme-")
    runs = again["runs"]
    wanted = (
        "accepted queued running waiting_tool waiting_approval waiting_external paused compensating needs_attention "
        "completed partially_completed failed cancelled"
    ).split()
    assert all(runs.get(status) for status in wanted), runs
    assert example("seed")["seeded"] is False
    people = Seed()
    states = {row["state"] for row in list_requests(actor=people.admin, state=None, limit=100).items}
    assert {"pending", "consumed", "rejected", "cancelled"} <= states
    wanted_alerts = {"unknown_operations", "needs_attention", "failed_runs"}
    until(lambda: wanted_alerts <= {a["rule"] for a in list_alerts(actor=people.admin).items}, 30, "alerts")
    assert list_workers(actor=people.admin)
    assert [one["tool"] for one in list_runbooks(actor=people.oncall)] == ["shop.pickup"]
    old = next(one for one in directory.all_tenants() if one.slug == again["retired"])
    assert old.suspended
    assert again["sign_ins"] == {}
    assert hashes() == before  # the people were there already: their passwords stay
    (running,) = _runs(people, "running")
    from runtime.actions.runs import cancel_run

    cancel_run(actor=people.oncall, run_id=running, reason="the test is over")


def hashes() -> dict[str, str]:
    """Return name → stored password of the example's people."""
    from django.contrib.auth.models import User

    return dict(User.objects.using("owner").filter(username__in=setup.PEOPLE).values_list("username", "password"))


def _runs(people: Seed, status: str) -> list[uuid.UUID]:
    from runtime.queries.runs import list_runs

    return [run["id"] for run in list_runs(actor=people.admin, status=[status]).items]


def test_the_shop_keeps_its_books(shop, tmp_path):
    body = {"order_id": "S-1", "amount": "5.00"}
    request = Request(shop.url + "/refunds", data=json.dumps(body).encode(), headers={"Idempotency-Key": "k1"})
    first = json.load(urlopen(request))
    assert json.load(urlopen(request)) == first
    assert shop.ask("/refunds?key=k1") == {"found": True, "refund": first}
    assert shop.ask("/refunds?key=k2") == {"found": False, "refund": None}
    assert shop.ask(f"/refunds/{first['refund_id']}/undo", {})["status"] == "undone"
    shop.process.kill()
    shop.process.wait()
    place = setup.place()
    assert place is not None
    shop.process = subprocess.Popen(setup.shop_command(place), cwd=ROOT)
    wait_for(shop.answers, 10, "the shop")
    assert shop.ask(f"/refunds/{first['refund_id']}")["status"] == "undone"
    assert shop.ask("/orders/S-1")["refunded"] == "0.00"
