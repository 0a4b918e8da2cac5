"""What an approval survives: prefetchers, changed files and inputs, lost workers, people who leave, other bytes."""

from __future__ import annotations

import unicodedata
import uuid

import pytest
from django.contrib.auth.models import User

from approvals.actions.propose import propose_edit
from approvals.errors import CannotBeShown, NotUsable, OtherVersion
from approvals.queries import get_request
from runtime.actions.artifacts import upload_artifact
from runtime.actions.steps import rerun_step
from runtime.actions.tenants import add_member
from runtime.kernel.canonical import digest
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput, Conflict, QuarterdeckError
from runtime.queries.effects import read_artifact_content
from runtime.worker.complete import complete
from runtime.worker.maintenance.storage import purge_artifacts
from runtime.worker.maintenance.timers import fire_timers
from runtime.worker.work import Report
from tests.support.actors import member
from tests.support.api import caller, problem
from tests.support.office import asking
from tests.support.race import together

pytestmark = [pytest.mark.req("C5.3", "C5.4", "C5.6", "A7.2"), pytest.mark.django_db(transaction=True)]

# Those who open links before people do.
BOTS = (
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Mozilla/5.0 (compatible; Microsoft-SafeLinks/1.0)",
    "facebookexternalhit/1.1",
)


@pytest.mark.parametrize("method", ["get", "head", "options"])
def test_whoever_opens_a_link_before_a_person_decides_nothing(office, client, method):
    request = office.pending(office.ask())
    user = User.objects.get(pk=office.approver.user_id)
    paths = (
        f"/inbox/{request['id']}/?decision=approve&version=1&payload_hash={request['payload_hash']}",
        f"/api/v1/approvals/{request['id']}/decide/?decision=approve",
    )
    for agent in BOTS:
        for path in paths:
            getattr(client, method)(path, headers={"user-agent": agent, "sec-purpose": "prefetch"})
        client.force_login(user)
    after = get_request(actor=office.admin, request_id=request["id"])
    assert (after["state"], after["decisions"], after["revision"]) == ("pending", [], request["revision"])


def evidence(office, body: bytes) -> str:
    made = upload_artifact(actor=office.integrator, body=body, media_type="text/x-python", sha256=digest(body))
    return str(made["artifact_id"])


def test_a_script_that_changed_while_it_was_pending_is_refused(office):
    """The script is evidence by hash: with other bytes it is another artifact, another payload and another action."""
    before, after = evidence(office, b"pay(5)"), evidence(office, b"pay(5000)")
    first = office.pending(office.ask({"to": "Ada", "script": before}, evidence=[{"$": "input.script"}]))
    other = office.pending(office.ask({"to": "Ada", "script": after}, evidence=[{"$": "input.script"}]))
    assert first["shown"]["evidence"][0]["sha256"] == digest(b"pay(5)").hex()
    assert first["action_hash"] != other["action_hash"]
    with pytest.raises(OtherVersion):
        office.decide({**other, "payload_hash": first["payload_hash"]})
    with pytest.raises(BadInput):
        upload_artifact(
            actor=office.integrator, body=b"pay(5000)", media_type="text/x-python", sha256=digest(b"pay(5)")
        )


@pytest.mark.usefixtures("fresh_db")
def test_what_is_shown_as_evidence_is_kept_however_long_the_request_stands(office, clock):
    """Named by its bare id, as a workflow's author may; the upload itself would have expired after a week."""
    shown, unseen = evidence(office, b"pay(5)"), evidence(office, b"pay(7)")
    ask = {"evidence": [{"$": "input.script"}], "expires_s": 90 * 86_400}
    run_id = office.ask({"to": "Ada", "script": shown}, name="slow", **ask)
    clock.advance(8 * 86_400)
    assert purge_artifacts() == 1
    assert office.pending(run_id)["shown"]["evidence"][0]["artifact_id"] == shown
    assert read_artifact_content(actor=office.approver, artifact_id=uuid.UUID(shown))[0] == b"pay(5)"
    # What has expired before it was asked about cannot be shown, so nothing of it can be approved.
    late = office.pending(office.ask({"to": "Ada", "script": unseen}, name="slow", **ask))
    assert "names no artifact of this hash" in late["problem"]
    with pytest.raises(CannotBeShown):
        office.decide(late)


def test_an_input_that_changed_while_it_was_pending_asks_anew(office):
    run_id = office.ask({"to": "Ada"})
    request = office.pending(run_id)
    step = office.step(run_id, "load")
    rerun_step(actor=office.oncall, step_id=step.id, expected_version=step.version, reason="the rate changed")
    office.work()
    with pytest.raises(Conflict):
        office.decide(request)
    assert office.sends(run_id) == {}
    assert office.pending(run_id)["id"] != request["id"]


@pytest.mark.usefixtures("fresh_db")
def test_a_call_that_is_taken_up_after_a_restart_is_known_by_its_digest(office):
    """Two alike calls and the worker of one is lost before it sends: each goes out under its own grant, once."""
    spec = asking(name="twice")
    pay = spec["nodes"][2]
    spec["nodes"][2:4] = [
        {**pay, "id": one, "business_key": f"'pay-{one}:' + input.to", "after": ["ask"]} for one in ("a", "b")
    ]
    run_id = office.submit(spec, {"to": "Ada"})
    office.work()
    office.decide(office.pending(run_id))
    office.call(office.claim())  # the approval's own step
    claimed = office.claim()
    assert {one.node.id for one in claimed} == {"a", "b"}
    complete(office.tenant.id, [Report(one, "given_back", cause="given_back") for one in reversed(claimed)])
    fire_timers()
    office.work()
    assert office.sends(run_id) == {"pay-a:Ada": 1, "pay-b:Ada": 1}
    used = get_request(actor=office.admin, request_id=office.requests(run_id)[0]["id"])
    assert {one["node"]: one["business_key"] for one in used["actions"]} == {"a": "pay-a:Ada", "b": "pay-b:Ada"}
    assert len({one["operation_id"] for one in used["actions"]}) == 2
    assert office.states(run_id) == ["consumed"]


def test_a_grant_for_one_tool_and_argument_is_none_for_another(office):
    ada, bo = office.ask({"to": "Ada"}), office.ask({"to": "Bo"})
    office.decide(office.pending(ada))
    office.work()
    assert (office.sends(ada).get("pay:Ada"), office.sends(bo)) == (1, {})
    assert office.pending(bo)["state"] == "pending"


def test_a_payload_that_is_too_large_to_show_whole_is_approved_by_nobody(office):
    text = "x" * (conf().max_payload_bytes // 2)
    run_id = office.ask({"to": "Ada", "text": text}, payload={"one": {"$": "input.text"}, "two": {"$": "input.text"}})
    request = office.pending(run_id)
    assert "the limit is" in request["problem"]
    assert request["calls"] == 0
    with pytest.raises(CannotBeShown):
        office.decide(request)
    assert office.sends(run_id) == {}


def test_two_approve_at_once_while_a_third_who_approved_leaves_the_role(office):
    """Of 2 of 3: whatever the order, the call goes out only while two who may still decide have approved it."""
    second, third = (member(office.tenant, "approver") for _ in range(2))
    for turn in range(6):
        first = member(office.tenant, "approver")
        run_id = office.ask({"to": f"T{turn}"}, name="pair", quorum=2)
        request = office.pending(run_id)
        office.decide(request, actor=first)

        def say(actor, request=request):
            try:
                return office.decide(request, actor=actor)["state"]
            except QuarterdeckError as refused:
                return refused.code

        def leave(first=first):
            return add_member(actor=office.admin, username=first.name, role="viewer")

        together(lambda: say(second), leave, lambda: say(third))
        office.work()
        standing = {office.requests(run_id)[-1]["state"]}
        if office.sends(run_id):
            assert standing == {"consumed"}
            said = get_request(actor=office.admin, request_id=office.requests(run_id)[0]["id"])["decisions"]
            assert {second.label, third.label} <= {one["actor"] for one in said}
        else:
            assert standing == {"pending"}
        office.check(run_id)


# -- bytes


def edited(office, arguments):
    request = office.pending(office.ask({"to": "Ada"}))
    return propose_edit(
        actor=office.approver, request_id=request["id"], arguments=arguments, version=1,
        payload_hash=request["payload_hash"], comment="as agreed",
    ), request  # fmt: skip


def test_the_largest_whole_number_survives_and_a_larger_one_is_refused(office):
    most = 2**53 - 1
    answer, _request = edited(office, {"to": "Ada", "rate": most})
    shown = get_request(actor=office.admin, request_id=uuid.UUID(answer["approval_id"]))["shown"]
    assert shown["calls"][0]["arguments"]["rate"] == most
    with pytest.raises(QuarterdeckError):
        edited(office, {"to": "Ada", "rate": 2**53 + 1})


def test_one_and_one_point_nought_are_one_number_and_a_text_is_none(office):
    answer, _request = edited(office, {"to": "Ada", "rate": 1})
    again = {"version": 2, "payload_hash": answer["payload_hash"], "comment": "x"}
    edit_of = {"actor": office.approver, "request_id": uuid.UUID(answer["approval_id"])}
    with pytest.raises(NotUsable):
        propose_edit(**edit_of, arguments={"to": "Ada", "rate": 1.0}, **again)
    text = propose_edit(**edit_of, arguments={"to": "Ada", "rate": "1"}, **again)
    (change,) = get_request(actor=office.admin, request_id=uuid.UUID(text["approval_id"]))["changes"]
    assert (change["type_before"], change["type_after"]) == ("integer", "string")


def test_two_forms_of_one_letter_are_two_texts(office):
    composed, apart = (unicodedata.normalize(form, "Zo\u00eb") for form in ("NFC", "NFD"))
    assert composed != apart
    hashes = set()
    for name in (composed, apart):
        request = office.pending(office.ask({"to": name}))
        assert request["shown"]["calls"][0]["arguments"]["to"] == name
        hashes.add(request["actions"][0]["arguments_hash"])
    assert len(hashes) == 2


@pytest.mark.parametrize(
    "body",
    [
        b'{"arguments": {"to": "Ada", "rate": "1", "rate": "2"}, "version": 1, "payload_hash": "%s", "comment": "x"}',
        b'{"arguments": {"to": "Ada", "rate": 9007199254740993}, "version": 1, "payload_hash": "%s", "comment": "x"}',
        b'{"arguments": {"to": "Ada", "rate": NaN}, "version": 1, "payload_hash": "%s", "comment": "x"}',
        b'{"arguments": {"to": "\\ud800"}, "version": 1, "payload_hash": "%s", "comment": "x"}',
        b'{"decision": "approve", "decision": "reject", "version": 1, "payload_hash": "%s"}',
    ],
    ids=["duplicate key", "big integer", "no number", "lone surrogate", "two decisions"],
)
def test_what_would_not_survive_exactly_is_refused_and_changes_nothing(office, body):
    request = office.pending(office.ask())
    act = "decide" if b'"decision"' in body else "propose"
    asker = caller(office.tenant, "approver")
    sent = body.replace(b"%s", request["payload_hash"].encode())
    problem(asker.raw("POST", f"approvals/{request['id']}/{act}/", sent), 400)
    after = get_request(actor=office.admin, request_id=request["id"])
    assert (after["state"], after["revision"], after["superseded_by"]) == ("pending", request["revision"], None)
