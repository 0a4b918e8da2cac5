"""What time does to a request: warnings, extension, escalation, the end by policy; never an approval (A7.3, B6.4)."""

from __future__ import annotations

import pytest
from django.core import mail
from psycopg.types.json import Jsonb

from approvals import duties
from approvals.actions.times import escalate_request, extend_request
from approvals.errors import HandedOver, NotUsable, TooLate
from approvals.queries import get_request
from runtime.access.identity import actor_in_tenant
from runtime.actions.tenants import add_member, end_membership
from runtime.kernel.errors import BadInput, PermissionDenied
from runtime.queries.people import list_audit, list_members
from tests.support.actors import member
from tests.support.duties import expire_requests, remind
from tests.support.engine import force_columns

pytestmark = [pytest.mark.req("A7.3", "B6.4", "C5.2"), pytest.mark.django_db(transaction=True)]
# The expiry duty looks at every tenant, the oldest first.
alone = pytest.mark.usefixtures("fresh_db")


def widen(office, one, role: str):
    """Let a member of a role decide all the same, and return who they are by now."""
    add_member(actor=office.admin, username=one.name, role=role, extra_verbs=["approval.decide"])
    return actor_in_tenant(office.tenant.id, one.user_id)


def kinds(request) -> list[str]:
    return [one["kind"] for one in request["notes"]]


@alone
def test_a_longer_time_supersedes_nothing(office, clock):
    run_id = office.ask()
    request = office.pending(run_id)
    answer = extend_request(actor=office.approver, request_id=request["id"], seconds=7200, reason="asking around")
    assert (answer["version"], answer["payload_hash"]) == (1, request["payload_hash"])
    clock.advance(3700)
    expire_requests()
    assert office.states(run_id) == ["pending"]
    entry = list_audit(actor=office.admin, verb="approval.extend").items[0]
    assert entry["details"]["from"] == request["deadline"].isoformat()
    # What was shown before the extension is what is decided after it.
    assert office.decide(request)["state"] == "approved"


@pytest.mark.parametrize("seconds", [0, -1, 60, 91 * 86400])
def test_an_extension_gives_more_time_within_bounds(office, seconds):
    request = office.pending(office.ask())
    with pytest.raises(BadInput):
        extend_request(actor=office.approver, request_id=request["id"], seconds=seconds, reason="x")
    with pytest.raises(PermissionDenied):
        extend_request(actor=office.oncall, request_id=request["id"], seconds=7200, reason="x")


@alone
def test_an_extension_after_the_end_is_too_late(office, clock):
    request = office.pending(office.ask())
    clock.advance(3601)
    with pytest.raises(NotUsable):
        extend_request(actor=office.approver, request_id=request["id"], seconds=7200, reason="x")
    expire_requests()
    with pytest.raises(TooLate):
        extend_request(actor=office.approver, request_id=request["id"], seconds=7200, reason="x")


@alone
def test_what_is_kept_is_decided_after_an_extension_only(office, clock):
    run_id = office.ask(name="patient", on_timeout="keep")
    request = office.pending(run_id)
    clock.advance(3601)
    expire_requests()
    assert office.states(run_id) == ["pending"]
    with pytest.raises(TooLate):
        office.decide(request)
    extend_request(actor=office.approver, request_id=request["id"], seconds=600, reason="I am back")
    assert office.decide(request)["state"] == "approved"


@alone
def test_the_ladder_is_climbed_rung_by_rung_and_then_it_is_rejected(office, clock):
    widen(office, member(office.tenant, "finance"), "finance")
    ladder = [{"role": "finance", "expires_s": 600}, {"role": "admin"}]
    run_id = office.ask(name="ladder", on_timeout="escalate", escalation=ladder)
    request = office.pending(run_id)
    clock.advance(3601)
    assert expire_requests() >= 1
    higher = office.pending(run_id)
    assert (higher["role"], higher["level"], higher["state"]) == ("finance", 1, "pending")
    assert (higher["payload_hash"], higher["version"]) == (request["payload_hash"], 1)
    with pytest.raises(PermissionDenied):
        office.decide(request)
    expire_requests()
    assert office.pending(run_id)["level"] == 1
    clock.advance(601)
    expire_requests()
    assert (office.pending(run_id)["role"], office.pending(run_id)["level"]) == ("admin", 2)
    assert kinds(office.pending(run_id)) == ["escalate", "escalate"]
    clock.advance(100_000)
    expire_requests()
    assert office.states(run_id) == ["rejected"]
    assert office.requests(run_id)[0]["outcome_reason"] == "timeout"
    assert office.sends(run_id) == {}
    office.check(run_id)


def test_a_person_escalates_and_whoever_had_it_has_it_no_more(office):
    from approvals.actions.handling import claim_request

    request = office.pending(office.ask())
    claim_request(actor=office.approver, request_id=request["id"])
    other = member(office.tenant, "approver")
    with pytest.raises(HandedOver):
        office.decide(request, actor=other)
    with pytest.raises(PermissionDenied):
        escalate_request(actor=office.oncall, request_id=request["id"], reason="x")
    answer = escalate_request(actor=office.approver, request_id=request["id"], reason="above my limit")
    assert (answer["role"], answer["level"], answer["assignee"]) == ("admin", 1, None)
    with pytest.raises(PermissionDenied):
        office.decide(request)
    assert office.decide(request, actor=office.admin)["state"] == "approved"


@pytest.mark.req("B6.4", "C5.6")
@pytest.mark.req("A7.3")
def test_a_request_is_escalated_only_to_a_role_in_which_somebody_could_decide_it(office):
    """Else it would leave the inbox of who had it and come into nobody's."""
    run_id = office.ask()
    request = office.pending(run_id)
    member(office.tenant, "viewer")
    lacking = ("viewer", "verifier", "integrator", "finance", "oncall")
    for role in lacking:
        with pytest.raises(BadInput, match=f"The role {role} cannot be asked.* `approval.decide`") as refused:
            escalate_request(actor=office.approver, request_id=request["id"], reason="x", role=role)
        assert (refused.value.where, refused.value.http_status) == ("/role", 400)
        assert "approver" in refused.value.remediation
        assert not any(one in refused.value.remediation for one in lacking)
    assert office.pending(run_id)["level"] == 0
    widened = widen(office, office.oncall, "oncall")
    answer = escalate_request(actor=office.approver, request_id=request["id"], reason="x", role="oncall")
    assert (answer["role"], answer["level"]) == ("oncall", 1)
    assert office.decide(office.pending(run_id), actor=widened)["state"] == "approved"


def test_a_role_that_nobody_has_is_not_asked(office):
    run_id = office.ask(role="admin")
    request = office.pending(run_id)
    for one in list_members(actor=office.admin):
        if one["role"] == "approver":
            end_membership(actor=office.admin, membership_id=one["id"])
    with pytest.raises(BadInput, match=r"The role approver cannot be asked\. Nobody here has it"):
        escalate_request(actor=office.admin, request_id=request["id"], reason="x", role="approver")
    assert office.pending(run_id)["level"] == 0


def test_voices_from_before_an_escalation_count_where_they_may_still_decide(office):
    """Under the new rule an approver has no say; an admin who spoke before has. Pages and answers count alike."""
    admins = [member(office.tenant, "admin") for _ in range(2)]
    run_id = office.ask({"to": "Flo"}, name="pair", quorum=3)
    request = office.pending(run_id)
    office.decide(request)
    assert office.decide(request, actor=admins[0])["approvals"] == 2
    escalate_request(actor=office.approver, request_id=request["id"], reason="above my limit")
    assert [office.pending(run_id)["approvals"], office.requests(run_id)[0]["approvals"]] == [1, 1]
    said = office.decide(request, actor=admins[1])
    assert (said["state"], said["approvals"], said["quorum"]) == ("pending", 2, 3)
    assert office.decide(request, actor=office.admin)["state"] == "approved"
    office.work()
    assert office.sends(run_id)["pay:Flo"] == 1


def test_half_of_the_time_warns_and_a_tenth_reminds_once_each(fresh_db, office, clock, settings):
    from django.contrib.auth.models import User

    from runtime.worker.maintenance.outbox import deliver

    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    mail.outbox = []
    User.objects.filter(pk=office.approver.user_id).update(email="approver@office.example")
    run_id = office.ask()
    remind()
    assert kinds(office.pending(run_id)) == []
    for seconds, subject in (
        (1801, "Half of the time is over: Pay out"),
        (1440, "Little time left to decide: Pay out"),
    ):
        clock.advance(seconds)
        remind()
        remind()
        deliver()
        subjects = [one.subject for one in mail.outbox if "approver@office.example" in one.recipients()]
        assert subjects[-1].startswith(f"{subject} · ")
    assert kinds(office.pending(run_id)) == ["warned", "reminded"]
    clock.advance(200)
    remind()
    assert kinds(office.pending(run_id)) == ["warned", "reminded"]


def test_an_escalated_one_has_its_own_half_and_its_own_tenth(fresh_db, office, clock):
    """However long it waited before: the shorter time of a rung warns and reminds as well."""
    ask = {"expires_s": 90_000, "on_timeout": "escalate", "escalation": [{"role": "admin", "expires_s": 6000}]}
    run_id = office.ask(name="ladder", **ask)
    clock.advance(90_001)
    expire_requests()
    seen = []
    for seconds in (2900, 150, 2250, 150, 100):
        clock.advance(seconds)
        remind()
        seen.append(kinds(office.pending(run_id))[1:])
    assert seen == [[], ["warned"], ["warned"], ["warned", "reminded"], ["warned", "reminded"]]


def test_a_kept_one_is_told_to_be_overdue_once(office, clock):
    run_id = office.ask(name="patient", on_timeout="keep")
    for seconds in (1801, 1440, 400, 400):
        clock.advance(seconds)
        remind()
    assert kinds(office.pending(run_id)) == ["warned", "reminded", "overdue"]
    assert office.pending(run_id)["revision"] == 1, "a reminder makes no open dialog stale"


def test_one_broken_request_keeps_no_other_waiting(fresh_db, office, clock):
    """What cannot be escalated is left as it is; whatever is due after it gets its turn."""
    broken = office.ask(name="ladder", on_timeout="escalate", escalation=[{"role": "admin"}], expires_s=60)
    other = office.ask()
    force_columns(fresh_db, "qd_approval", office.pending(broken)["id"], ladder=Jsonb([{"nobody": 1}]))
    clock.advance(3601)
    assert expire_requests() == 1
    assert (office.states(broken), office.states(other)) == (["pending"], ["rejected"])


def test_more_broken_requests_than_a_page_keep_no_other_waiting(fresh_db, office, clock, monkeypatch):
    monkeypatch.setattr(duties, "_BATCH", 2)
    for _ in range(5):
        broken = office.ask(name="ladder", on_timeout="escalate", escalation=[{"role": "admin"}], expires_s=60)
        force_columns(fresh_db, "qd_approval", office.pending(broken)["id"], ladder=Jsonb([{"nobody": 1}]))
    other = office.ask()
    clock.advance(3601)
    assert sum(expire_requests() for _ in range(4)) == 1
    assert office.states(other) == ["rejected"]


@alone
def test_an_escalation_races_a_person(office, clock):
    """Whoever locks the row first has won; the other finds it as it is then."""
    run_id = office.ask(name="ladder", on_timeout="escalate", escalation=[{"role": "admin"}])
    request = office.pending(run_id)
    office.decide(request)
    clock.advance(3601)
    expire_requests()
    assert get_request(actor=office.admin, request_id=request["id"])["state"] == "approved"
