"""Faults that other consoles have and this one must not: each as a person would meet it, on the console's pages.

What lies behind them is proved where it lies: two decisions at once and clocks (``tests/approvals/test_decide``), a
cancel that races a success (``tests/races/test_pairs``), a worker without progress (``tests/faults/test_frozen``), a
large graph in a browser (``tests/browser/test_graph``). Schedules, with their catch-up after an outage and the
hour that DST doubles, are not there yet.
"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from approvals.actions.propose import propose_edit
from approvals.models import Decision, Request
from runtime.actions.runs import cancel_run
from runtime.models import AuditEntry, WorkerSession
from runtime.queries import runs as run_queries
from runtime.store.tx import tenant_tx
from tests.support.office import Office
from tests.support.operations import send
from tests.support.pages import Reader, Scene, as_json, node


def state_in_list(page: str, run_id: object) -> str:
    row = re.search(rf'<tr data-href="/runs/{run_id}/">(.*?)</tr>', page, re.S)
    assert row is not None
    found = re.search(r"#m-(\w+)", row.group(1))
    assert found is not None
    return found.group(1)


def state_in_head(page: str) -> str:
    found = re.search(r"<h1.*?#m-(\w+)", page, re.S)
    assert found is not None
    return found.group(1)


def test_list_detail_facets_and_api_agree(made: Scene, admin: Reader):
    listed = admin.get("/runs/")
    for run_id in made.runs.values():
        status = made.engine.run(run_id).status
        told = as_json(admin.get(f"/api/v1/runs/{run_id}/"))["status"]
        assert {status, told, state_in_list(listed, run_id), state_in_head(admin.get(f"/runs/{run_id}/steps/"))} == {
            status
        }
        assert state_in_list(admin.get(f"/runs/?status={status}"), run_id) == status


def test_no_success_is_shown_while_an_effect_is_open(made: Scene, admin: Reader):
    engine = made.engine
    run_id = engine.submit({"format": "quarterdeck/1", "name": "one", "nodes": [node("only")]}, {})
    (claimed,) = [one for one in engine.claim() if one.run_id == run_id]
    send(engine, claimed, "refund:1")
    engine.report(claimed, "unknown", operation_status="unknown")
    page = admin.get(f"/runs/{run_id}/operations/")
    assert state_in_head(page) not in ("completed", "partially_completed")
    assert "not known" in page
    assert state_in_list(admin.get("/runs/"), run_id) == state_in_head(page)


def test_an_effect_that_was_answered_shows_its_receipt_beside_its_fact(made: Scene, admin: Reader):
    engine = made.engine
    run_id = engine.submit({"format": "quarterdeck/1", "name": "paid", "nodes": [node("only")]}, {})
    (claimed,) = [one for one in engine.claim() if one.run_id == run_id]
    send(engine, claimed, "refund:paid", recovery="query")
    answered = {"operation_status": "succeeded", "external_ref": "R-000027"}
    engine.report(claimed, "succeeded", {"refund_id": "R-000027"}, **answered)
    page = admin.get(f"/runs/{run_id}/operations/")
    outside = [" ".join(one.split()) for one in re.findall(r'<div class="ext">(.*?)</div>', page, re.DOTALL)]
    assert outside[0] == "done"
    assert outside[1].startswith("answered ")
    assert "R-000027" in outside[2]
    assert "is asked before a repeat" not in "".join(outside), "that is the contract's word, and no fact outside"
    assert "After a doubt: is asked before a repeat" in page
    assert "Yes, confirmed: R-000027." in admin.get(f"/runs/{run_id}/why/?step=only")


@pytest.mark.req("C5.5")
@pytest.mark.parametrize(
    ("outcome", "status", "sentence"),
    [
        ("succeeded", "succeeded", "Execution cancelled, external action happened: refund:{}."),
        ("unknown", "unknown", "Execution cancelled, external action to be verified: refund:{}."),
        ("failed", "refused", None),
    ],
)
def test_a_cancelled_run_says_what_happened_outside(made: Scene, admin: Reader, outcome, status, sentence):
    """A late success is kept and told; the run's state does not go back for it."""
    engine = made.engine
    run_id = engine.submit({"format": "quarterdeck/1", "name": "one", "nodes": [node("only")]}, {})
    (claimed,) = [one for one in engine.claim() if one.run_id == run_id]
    send(engine, claimed, f"refund:{run_id}")
    cancel_run(actor=engine.actor, run_id=run_id, reason="too much")
    assert engine.run(run_id).status == "cancelling"
    engine.report(claimed, outcome, operation_status=status)
    assert engine.run(run_id).status == ("needs_attention" if outcome == "unknown" else "cancelled")
    for tab in ("", "operations/", "timeline/"):
        page = admin.get(f"/runs/{run_id}/{tab}")
        assert state_in_head(page) not in ("completed", "partially_completed")
        if sentence is None:
            assert "Execution cancelled, external action" not in page
        else:
            assert sentence.format(run_id) in page


def test_a_step_marked_by_hand_never_looks_like_a_success(made: Scene, admin: Reader):
    run_id = made.runs["forced"]
    row = re.search(r'<tr data-href="\?step=a"(.*?)</tr>', admin.get(f"/runs/{run_id}/steps/"), re.S)
    assert row is not None
    assert "#m-mark_successed" in row.group(1)
    assert "#m-succeeded" not in row.group(1)
    assert "succeeded by hand" in admin.get(f"/runs/{run_id}/timeline/")
    graph = as_json(admin.get(f"/api/v1/runs/{run_id}/graph/"))
    assert {one["id"]: one["step"]["status"] for one in graph["nodes"]}["a"] == "mark_successed"
    assert "Not decided" in admin.get(f"/runs/{run_id}/")


def test_a_worker_that_is_late_is_suspected_until_its_lease_is_over(made: Scene, admin: Reader, clock):
    session = made.engine.open_session(lease=60)
    clock.advance(timedelta(seconds=20))
    name = str(session)[-8:]

    def row() -> str:
        found = re.search(rf"<tr[^>]*>(?:(?!</tr>).)*{name}.*?</tr>", admin.get("/workers/"), re.S)
        assert found is not None
        return found.group(0)

    assert "suspected lost" in row()
    clock.advance(timedelta(seconds=60))
    assert "suspected" not in row()
    assert "lease is over" in row()
    assert WorkerSession.objects.using("owner").get(id=session).ended_at is None


def test_no_list_counts_every_row(made: Scene, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_queries, "COUNT_BOUND", 3)
    assert len(made.runs) > 4
    page = run_queries.list_runs(actor=made.engine.actor, limit=2, count=True)
    assert page.count == 4, "one more than the bound, however many there are"


def asked_for(made: Scene) -> Request:
    with tenant_tx(made.tenant.id):
        return Request.objects.get(run_id=made.runs["asks"])


def test_a_link_preview_or_a_mail_scanner_decides_nothing(made: Scene):
    """Whatever follows every link of a mail, signed in or not, with whatever is written into the address."""
    approver, request = Reader(made.tenant, "approver"), asked_for(made)
    address = f"/inbox/{request.id}/"
    quoted = f"decision=approve&version={request.version}&payload_hash={bytes(request.payload_sha256).hex()}"
    with tenant_tx(made.tenant.id):
        written = AuditEntry.objects.count()
    for client in (approver.client, Client(headers={"user-agent": "LinkScanner/1.0"})):
        for path in (address, f"{address}?{quoted}", f"{address}answer/?{quoted}", f"/inbox/several/?ask={request.id}"):
            for ask in (client.get, client.head, client.options):
                assert ask(path).status_code in (200, 302, 405), path
    assert asked_for(made).revision == request.revision
    with tenant_tx(made.tenant.id):
        assert AuditEntry.objects.count() == written
        assert not Decision.objects.exists()


def test_an_expiry_is_never_shown_or_taken_as_an_approval(made: Scene, clock):
    approver, request = Reader(made.tenant, "approver"), asked_for(made)
    address = f"/inbox/{request.id}/"
    form = {**approver.form(approver.get(address)), "decision": "approve"}
    clock.advance(timedelta(hours=2))
    assert "Decision is too late" in approver.post(address, form, 409).content.decode()
    page = approver.get(address)
    assert "#m-approved" not in page
    assert 'value="approve"' not in page, "what can no longer be approved offers no approval"
    assert made.engine.step(made.runs["asks"], "ask").status == "hold"


def test_a_stale_tab_never_answers_a_newer_request(tenant):
    office, approver = Office(tenant), Reader(tenant, "approver")
    run_id = office.ask({"to": "Ada"})
    old = office.pending(run_id)
    stale = {**approver.form(approver.get(f"/inbox/{old['id']}/")), "decision": "approve"}
    quoted = {"version": old["version"], "payload_hash": old["payload_hash"], "comment": "the rate rose"}
    rose = {"to": "Ada", "rate": "9.90"}
    propose_edit(actor=office.approver, request_id=old["id"], arguments=rose, **quoted)
    new = office.pending(run_id)
    assert new["payload_hash"] != old["payload_hash"]
    for address in (f"/inbox/{old['id']}/", f"/inbox/{new['id']}/"):
        assert approver.post(address, stale, None).status_code == 409
    assert office.pending(run_id)["decisions"] == []
    office.work()
    assert office.sends(run_id) == {}


def test_a_cancel_that_loses_to_a_success_says_that_it_already_succeeded(made: Scene, admin: Reader):
    run_id = made.engine.submit({"format": "quarterdeck/1", "name": "one", "nodes": [node("only")]}, {})
    address = f"/runs/{run_id}/verbs/cancel/"
    form = admin.form(admin.get(address))
    made.engine.finish("only")
    page = admin.post(address, {**form, "reason": "no longer wanted"}, 409).content.decode()
    assert "completed" in page
    assert "Nothing was done." in page
    assert made.engine.run(run_id).status == "completed"
    assert "cancelled" not in made.engine.types(run_id)


def test_a_beating_worker_without_progress_is_not_shown_as_healthy(made: Scene, admin: Reader):
    session = made.engine.open_session(lease=60)
    WorkerSession.objects.using("owner").filter(id=session).update(end_reason="no_progress")
    row = re.search(rf"<tr[^>]*>(?:(?!</tr>).)*{str(session)[-8:]}.*?</tr>", admin.get("/workers/"), re.S)
    assert row is not None
    assert "alive without progress" in row.group(0)
    assert "#m-fine" not in row.group(0)


def test_a_graph_of_two_thousand_steps_is_sent_in_groups_not_whole(made: Scene, admin: Reader):
    """What keeps a browser from freezing begins here: the page itself draws none of them."""
    spec = {"format": "quarterdeck/1", "name": "wide", "nodes": [node(f"n{i}") for i in range(2_000)]}
    run_id = made.engine.submit(spec, {})
    page = admin.get(f"/runs/{run_id}/")
    assert "n1999" not in page
    assert len(page) < 200_000


def test_nothing_approves_many_at_once_unseen(made: Scene, admin: Reader):
    assert not re.search(r"approve all|select all", admin.get("/inbox/"), re.I)
    back = {"verb": "approve", "run": str(made.runs["asks"]), "back": ""}
    admin.post("/runs/bulk/", back, 400)
