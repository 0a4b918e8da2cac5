"""Verbs, decisions, stops, members and tokens by form: the same actions as the API, refused where it refuses."""

from __future__ import annotations

import re

import pytest

from approvals.models import Decision, Request
from dashboard.pages import verbs
from runtime.actions.runs import pause_run
from runtime.actions.settings import set_setting
from runtime.models import ApiToken, AuditEntry, Membership, Tenant
from runtime.queries.settings import list_settings
from runtime.queries.stops import list_stops
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.pages import Reader, node


def test_a_verb_goes_through_its_dialog(made, admin):
    step = made.engine.step(made.runs["failed"], "a")
    address = f"/steps/{step.id}/verbs/rerun/"
    page = admin.get(address)
    assert "shown at version" in page
    assert "Stays open" in page
    admin.post(address, {**admin.form(page), "reason": "gate was down"})
    with tenant_tx(made.tenant.id):
        entry = AuditEntry.objects.filter(verb="step.rerun").latest("number")
    assert entry.reason == "gate was down"
    assert entry.actor == f"user:{admin.user.username}"


def test_an_act_leads_back_to_the_tab_that_its_dialog_lay_over(made, admin):
    run = f"/runs/{made.runs['held']}/"
    for shown, leads in ((f"{run}steps/?step=b", f"{run}steps/?step=b"), ("/runs/?status=paused", run)):
        for verb in ("pause", "resume"):
            address = f"{run}verbs/{verb}/"
            headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{shown}"}
            form = {**admin.form(admin.get(address)), "reason": "the gate is shut"}
            assert admin.post(address, form, 204, headers=headers)["HX-Redirect"] == leads


def test_a_stale_dialog_does_nothing_and_tells_what_changed(made, admin):
    """A stale tab does not answer a newer request."""
    run_id = made.runs["asks"]
    address = f"/runs/{run_id}/verbs/cancel/"
    form = admin.form(admin.get(address))
    pause_run(actor=made.engine.actor, run_id=run_id, reason="the fare desk asked")
    answer = admin.post(address, {**form, "reason": "no longer wanted"}, 409)
    page = answer.content.decode()
    assert "This moved while you read. Nothing was done." in page
    assert "the fare desk asked" in page
    assert made.engine.run(run_id).status == "paused"
    assert "no longer wanted" in page, "what was typed is kept"


def test_cancel_of_a_run_that_ended_says_what_it_is(made, admin):
    address = f"/runs/{made.runs['done']}/verbs/cancel/"
    page = admin.get(address)
    assert "It already ended: completed." in page
    admin.post(address, {**admin.form(page), "reason": "late"}, 409)
    assert made.engine.run(made.runs["done"]).status == "completed"


def test_forcing_asks_for_the_id_a_reason_and_a_look(made, admin):
    step = made.engine.step(made.runs["failed"], "a")
    address = f"/steps/{step.id}/verbs/mark-successed/"
    form = admin.form(admin.get(address))
    for wrong in (
        {},
        {"reason": "x", "typed": "000000", "checked": "on"},
        {"typed": str(step.id)[-6:], "checked": "on"},
    ):
        admin.post(address, {**form, **wrong}, 400)
    assert made.engine.step(made.runs["failed"], "a").status == "failed"
    filled = {**form, "reason": "confirmed by phone", "typed": str(step.id)[-6:], "checked": "on"}
    for said in ({}, {"evidence": "ticket 55810", "no_evidence": "on"}):
        assert "Name the evidence" in admin.post(address, {**filled, **said}, 400).content.decode()
    admin.post(address, {**filled, "evidence": "ticket 55810"})
    page = admin.get(f"/runs/{made.runs['failed']}/?step=a")
    assert "succeeded by hand" in page
    assert "A person set its success." in page
    assert all(said in page for said in (admin.user.username, "confirmed by phone", "ticket 55810"))
    events = admin.get(f"/runs/{made.runs['failed']}/events/")
    assert "by hand: 1 step marked as succeeded" in events, "beside the run's state, on every tab"


@pytest.mark.req("A2.6")
def test_forcing_says_what_follows_which_attempt_ends_and_who_has_to_agree(made, admin):
    settings = {"force": {"second_person": "always"}}
    with tenant_tx(made.tenant.id, using="owner"):
        Tenant.objects.using("owner").filter(id=made.tenant.id).update(settings=settings)
    engine = made.engine
    nodes = [node("pay"), node("tell", "pay"), node("file", "tell")]
    run_id = engine.submit({"format": "quarterdeck/1", "name": "lives", "nodes": nodes}, {})
    [claimed] = [one for one in engine.claim() if one.run_id == run_id]
    address = f"/steps/{claimed.step_id}/verbs/mark-successed/"
    page = admin.get(address)
    assert f"Attempt {claimed.attempt} runs under epoch {claimed.owner_epoch}." in page
    assert "Runs from there on: tell, file" in page
    assert "A second person is needed" in page
    assert "Ask another admin" in page, "the button says what it does: nothing is marked by it yet"
    filled = {**admin.form(page), "reason": "seen", "typed": str(claimed.step_id)[-6:], "checked": "on"}
    admin.post(address, {**filled, "no_evidence": "on"})
    assert "Another admin was asked to agree" in admin.get(f"/runs/{run_id}/")
    assert engine.step(run_id, "pay").status == "running"
    second = Reader(made.tenant, "admin")
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(subject_kind="force")
    asked = second.get(f"/inbox/{request.id}/")
    assert "The step is marked as succeeded by hand, for good." in asked
    assert f"/runs/{run_id}/?step=pay" in asked


def test_who_may_not_act_is_told_and_refused(made):
    viewer = Reader(made.tenant, "viewer")
    page = viewer.get(f"/runs/{made.runs['asks']}/")
    assert "Your role may not do this." in page
    assert 'aria-disabled="true"' in page
    viewer.get(f"/runs/{made.runs['asks']}/verbs/cancel/", 403)
    viewer.post(f"/runs/{made.runs['asks']}/verbs/cancel/", {"version": 1, "reason": "x"}, 403)
    assert made.engine.run(made.runs["asks"]).status == "waiting_approval"


def test_a_refusal_is_told_in_the_dialog_that_asked(made):
    """A toast would lie under the dialog, where nobody reads it and no key reaches it."""
    viewer = Reader(made.tenant, "viewer")
    address = f"/runs/{made.runs['asks']}/verbs/cancel/"
    headers = {"HX-Request": "true", "HX-Target": "dialog"}
    answer = viewer.client.get(address, headers=headers)
    assert (answer.status_code, answer["HX-Retarget"]) == (403, "#dialog")
    assert 'id="dialog-title"' in answer.content.decode()
    answer = viewer.post(address, {"version": 1, "reason": "x"}, 403, headers=headers)
    assert (answer["HX-Retarget"], answer["HX-Reswap"]) == ("#dialog-problem", "innerHTML")
    assert 'role="alert"' in answer.content.decode()
    assert 'id="dialog-problem"' in Reader(made.tenant, "oncall").get(address, headers=headers)
    answer = viewer.client.get(address, headers={"HX-Request": "true", "HX-Target": "drawer"})
    assert answer["HX-Retarget"] == "#toasts"


def test_forms_from_elsewhere_are_refused(made):
    reader = Reader(made.tenant, "admin", csrf=True)
    page = reader.client.post(f"/runs/{made.runs['asks']}/verbs/cancel/", {"version": 1})
    assert page.status_code == 403
    assert "does not belong to your present session" in page.content.decode()


def request_of(made) -> Request:
    with tenant_tx(made.tenant.id):
        return Request.objects.get(run_id=made.runs["asks"])


def test_a_decision_quotes_what_was_shown(made):
    approver = Reader(made.tenant, "approver")
    request = request_of(made)
    address = f"/inbox/{request.id}/"
    page = approver.get(address)
    assert "Approve EUR 412.60" in page
    form = approver.form(page)
    assert form["payload_hash"] == bytes(request.payload_sha256).hex()
    other = {**form, "payload_hash": "0" * 64, "decision": "approve"}
    assert "Nothing was decided." in approver.post(address, other, 409).content.decode()
    approver.post(address, {**form, "decision": "approve", "comment": "fits the rules"})
    assert request_of(made).state == "approved"
    assert made.engine.step(made.runs["asks"], "ask").status != "hold"
    with tenant_tx(made.tenant.id):
        assert Decision.objects.get(request_id=request.id).comment == "fits the rules"
    assert "approved" in approver.get(address)
    late = {**form, "decision": "reject", "comment": "second thoughts"}
    assert approver.post(address, late, None).status_code == 409
    assert request_of(made).state == "approved"


def test_a_rejection_needs_a_reason(made):
    approver = Reader(made.tenant, "approver")
    address = f"/inbox/{request_of(made).id}/"
    form = {**approver.form(approver.get(address)), "decision": "reject"}
    assert "Say why you reject" in approver.post(address, form, 400).content.decode()
    approver.post(address, {**form, "comment": "no-show"})
    assert request_of(made).state == "rejected"


def test_time_never_approves(made, clock):
    approver = Reader(made.tenant, "approver")
    address = f"/inbox/{request_of(made).id}/"
    form = approver.form(approver.get(address))
    clock.advance(7200)
    answer = approver.post(address, {**form, "decision": "approve"}, 409)
    assert "Decision is too late" in answer.content.decode()
    assert request_of(made).state != "approved"


def test_only_the_named_role_decides(made):
    finance = Reader(made.tenant, "finance")
    address = f"/inbox/{request_of(made).id}/"
    page = finance.get(address)
    assert "It waits for the role Approver." in page
    finance.post(address, {**finance.form(page), "decision": "approve"}, 403)
    assert request_of(made).state == "pending"


def test_stops_are_set_and_lifted(made, admin):
    admin.post("/stops/", {"scope": "tool", "name": "core.echo", "minutes": "60", "reason": ""}, 400)
    admin.post("/stops/", {"scope": "tool", "name": "core.echo", "minutes": "60", "reason": "answers twice"})
    (stop,) = list_stops(actor=made.engine.actor, standing=True)
    assert stop["until"] is not None
    assert "answers twice" in admin.get("/stops/")
    assert "Stopped: no new call starts." in admin.get("/tools/core.echo/")
    Reader(made.tenant, "viewer").post(f"/stops/{stop['id']}/lift/", {}, 403)
    admin.post(f"/stops/{stop['id']}/lift/", {"reason": "mended"})
    assert not list_stops(actor=made.engine.actor, standing=True)


def test_a_misspelt_stop_says_that_it_stops_nothing(made, admin):
    asked = {"scope": "tool", "name": "core.ecko", "minutes": "", "reason": "answers twice"}
    page = admin.post("/stops/", asked, 200, follow=True).content.decode()
    assert "No tool is registered as core.ecko: nothing that runs today is stopped." in page
    assert "No new call starts" not in page.partition('id="toasts"')[2]
    assert page.count("Nothing of this name is registered") == 1
    (stop,) = list_stops(actor=made.engine.actor, standing=True)
    assert stop["known"] is False
    for name in ("core.echo", "core.echo@1"):
        page = admin.post("/stops/", {**asked, "name": name}, 200, follow=True).content.decode()
        assert "Stopped. No new call starts" in page
    for scope, name in (("tool", "core.echo@7"), ("workflow", "trib")):
        page = admin.post("/stops/", {**asked, "scope": scope, "name": name}, 200, follow=True).content.decode()
        assert f"No {scope} is registered as {name}" in page
    admin.post("/stops/", {**asked, "scope": "workflow", "name": "trip"})
    known = {one["name"]: one["known"] for one in list_stops(actor=made.engine.actor, standing=True)}
    assert known == {"core.ecko": False, "core.echo": True, "core.echo@1": True, "core.echo@7": False, "trib": False,
                     "trip": True}  # fmt: skip


def test_what_was_done_is_told_with_a_mark_that_there_is(made, admin):
    page = admin.post("/stops/", {"scope": "tenant", "reason": "drill"}, 200, follow=True).content.decode()
    toast = page.partition('id="toasts"')[2]
    assert 'href="#m-succeeded"' in toast


def test_the_tenants_settings_are_told_beside_its_members(made, admin):
    page, settings = admin.get("/members/"), list_settings(actor=member(made.tenant, "admin"))
    assert page.count('<span class="badge">default</span>') == len(settings)
    set_setting(actor=member(made.tenant, "admin"), key="force.second_person", value="effects")
    page = admin.get("/members/")
    assert '<b class="mono">force.second_person</b><span class="push mono">effects</span></div>' in page
    assert page.count('<span class="badge">default</span>') == len(settings) - 1


def test_members_are_added_and_ended(made, admin):
    newcomer = Reader(made.tenant, "viewer")
    admin.post("/members/", {"username": newcomer.user.username, "role": "oncall"})
    with tenant_tx(made.tenant.id):
        membership = Membership.objects.get(user=newcomer.user, ended_at=None)
    assert membership.role == "oncall"
    newcomer.post("/members/", {"username": newcomer.user.username, "role": "admin"}, 403)
    admin.post("/members/", {"end": str(membership.id)})
    assert newcomer.client.get("/now/").status_code == 403
    page = admin.post("/members/", {"username": "nobody-of-that-name", "role": "viewer"}, 404).content.decode()
    assert "Nothing was changed." in page


def test_a_token_is_shown_once(made, admin):
    page = admin.post("/tokens/", {"name": "ci", "days": "7", "verbs": ["run.read"]}, 200).content.decode()
    raw = re.search(r'id="new-token">(qd_[\w-]+)<', page)
    assert raw is not None
    assert raw.group(1) not in admin.get("/tokens/")
    with tenant_tx(made.tenant.id):
        token = ApiToken.objects.get(name="ci")
    assert token.verbs == ["run.read"]
    admin.post(f"/tokens/{token.id}/revoke/", {})
    assert "revoked" in admin.get("/tokens/")
    admin.post("/tokens/", {"name": "x", "days": "0"}, 400)


def test_a_task_is_started_once_however_often_the_form_is_sent(made, admin):
    form = admin.form(admin.get("/workflows/trip/start/"))
    asked = {**form, "input": "{}", "name": "From the page"}
    first = admin.post("/workflows/trip/start/", asked)["Location"]
    assert admin.post("/workflows/trip/start/", asked)["Location"] == first
    assert "From the page" in admin.get(first)
    assert "Nothing" not in admin.post("/workflows/trip/start/", {**asked, "input": "{"}, 400)["Content-Type"]
    Reader(made.tenant, "viewer").get("/workflows/trip/start/", 403)


def test_several_runs_are_frozen_previewed_and_answered_one_by_one(made, admin):
    chosen = [made.runs["asks"], made.runs["retries"], made.runs["done"]]
    assert "No run was chosen" in admin.post("/runs/bulk/", {"verb": "pause"}, 400).content.decode()
    page = admin.post("/runs/bulk/", {"verb": "pause", "run": [str(one) for one in chosen]}, 200).content.decode()
    assert "Pause: 2 runs?" in page
    assert "It already ended: completed." in page
    assert made.engine.run(chosen[0]).status == "waiting_approval", "a preview does nothing"
    pause_run(actor=made.engine.actor, run_id=chosen[1], reason="somebody was faster")
    frozen = admin.form(page)["frozen"]
    answer = admin.post("/runs/bulk/", {"frozen": frozen, "reason": "maintenance"}, 200).content.decode()
    assert "2 of 2 answered" in answer
    assert made.engine.run(chosen[0]).status == "paused"
    with tenant_tx(made.tenant.id):
        reasons = AuditEntry.objects.filter(verb="run.pause").order_by("number").values_list("reason", flat=True)
        assert list(reasons) == ["somebody was faster", "maintenance"]
    Reader(made.tenant, "admin").post("/runs/bulk/", {"frozen": frozen}, 400)
    Reader(made.tenant, "viewer").post("/runs/bulk/", {"verb": "cancel", "run": [str(chosen[0])]}, 403)
    admin.get("/runs/bulk/", 405)


def test_the_audit_can_be_walked_from_its_page(made, admin):
    page = admin.post("/audit/", {}, 200).content.decode()
    assert "Chain verified" in page
    Reader(made.tenant, "viewer").post("/audit/", {}, 403)


def test_a_dialog_counts_what_it_does_not_name(made, admin):
    engine = made.engine
    nodes = [node("first"), *(node(f"n{i}", "first") for i in range(12))]
    run_id = engine.submit({"format": "quarterdeck/1", "name": "wide", "nodes": nodes}, {})
    first = engine.step(run_id, "first")
    page = admin.get(f"/steps/{first.id}/verbs/skip/")
    assert [f">n{i}<" in page for i in range(12)] == [True] * 8 + [False] * 4
    assert "and 4 more steps<small>starts</small>" in page
    engine.finish("first")
    for verb, becomes in (("pause", "is parked"), ("cancel", "is skipped")):
        assert f"and 4 more steps<small>{becomes}</small>" in admin.get(f"/runs/{run_id}/verbs/{verb}/")


def test_what_changed_is_read_from_where_the_dialog_was_shown(made, admin, monkeypatch):
    """Not from the ledger's beginning: the newest changes of a long run are those that matter."""
    run_id = made.runs["asks"]
    address = f"/runs/{run_id}/verbs/cancel/"
    form = admin.form(admin.get(address))
    pause_run(actor=made.engine.actor, run_id=run_id, reason="the fare desk asked")
    monkeypatch.setattr(verbs, "MOST_SINCE", 2)
    page = admin.post(address, {**form, "reason": "late"}, 409).content.decode()
    assert "the fare desk asked" in page
    shown_later = {**form, "seq": made.engine.run(run_id).seq}
    assert "the fare desk asked" not in admin.post(address, {**shown_later, "reason": "late"}, 409).content.decode()
    admin.post(address, {**form, "seq": 10**9, "reason": "late"}, 409)


def test_a_stop_sent_twice_is_one_and_another_is_told_which_stands(made, admin):
    asked = {"scope": "tool", "name": "core.echo", "minutes": "60", "reason": "answers twice"}
    for _click in range(2):
        admin.post("/stops/", asked)
    (stop,) = list_stops(actor=made.engine.actor, standing=True)
    page = admin.post("/stops/", {**asked, "minutes": "", "reason": "for long"}, 409).content.decode()
    assert "It is stopped already; nothing was changed." in page
    assert f'href="#stop-{stop["id"]}"' in page
    assert f'id="stop-{stop["id"]}"' in page
    (named,) = re.findall(r'form="set-stop" name="replaces" value="([^"]+)"', page)
    admin.post("/stops/", {**asked, "minutes": "", "reason": "for long", "replaces": named})
    (longer,) = list_stops(actor=made.engine.actor, standing=True)
    assert (longer["until"], longer["reason"]) == (None, "for long")
    admin.post("/stops/", {"scope": "tenant", "reason": "drill"})
    told = admin.post(f"/stops/{longer['id']}/lift/", {}, 200, follow=True).content.decode()
    assert "Lifted. 1 other stop still holds it back." in told
    assert "What it held back goes on" not in told


def test_a_token_form_sent_twice_issues_one(made, admin):
    form = admin.form(admin.get("/tokens/"))
    assert form["token_id"]
    asked = {**form, "name": "ci", "days": "7"}
    first = admin.post("/tokens/", asked, 200).content.decode()
    assert 'id="new-token"' in first
    again = admin.post("/tokens/", asked, 409).content.decode()
    assert "This token was issued already" in again
    assert 'id="new-token"' not in again
    with tenant_tx(made.tenant.id):
        assert ApiToken.objects.filter(name="ci").count() == 1
    # The page that says so has a form of its own again.
    fresh = re.findall(r'name="token_id" value="([^"]+)"', again)
    assert len(fresh) == 1
    assert fresh[0] != form["token_id"]
    admin.post("/tokens/", {**asked, "token_id": fresh[0]}, 200)
