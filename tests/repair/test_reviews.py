"""Who may review a repair learns that it waits: in a list of their own, and by one mail that only leads to it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail

from repair import bulk_duty
from repair.actions.bulk import abort_bulk, order_bulk, prepare_bulk, review_bulk
from repair.actions.claim import claim_case
from repair.actions.propose import keep_pending
from repair.actions.resolve import review_proposal
from repair.bulks import list_bulks
from repair.queries import list_cases
from repair.reviews import count_reviews, waiting_reviews
from runtime.access.verbs import STOP_READ
from runtime.actions.languages import choose_language
from runtime.kernel.actor import Actor
from runtime.models import Membership, Operation, Outbox
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.outbox import deliver
from tests.support.actors import member
from tests.support.desk import Desk

pytestmark = [pytest.mark.req("C8.4", "C8.5"), pytest.mark.django_db(transaction=True)]


def waiting(actor: Actor) -> list[uuid.UUID]:
    """Return the ids of what waits for this person, by every way of asking."""
    found = [one["id"] for one in waiting_reviews(actor=actor)]
    assert count_reviews(actor=actor) == len(found)
    listed = [one["id"] for one in list_cases(actor=actor, review=True).items]
    listed += [one["id"] for one in list_bulks(actor=actor, review=True).items]
    assert sorted(listed) == sorted(found)
    return found


def under_review(desk: Desk, resolution: str = "resume_step", **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a case whose proposal waits for a second person, and what proposing it answered."""
    case = desk.saw(desk.taken(desk.lost("human")), "absent")
    said = desk.propose(case, resolution, **more)
    assert said["needs_review"]
    return case, said


def review(desk: Desk, case: dict[str, Any], said: dict[str, Any], decision: str) -> None:
    review_proposal(
        actor=desk.second,
        case_id=case["id"],
        repair_id=uuid.UUID(said["repair_id"]),
        decision=decision,
        expected_version=said["version"],
        comment="looked at it",
    )


def test_a_proposal_waits_for_everybody_who_may_review_it_but_its_proposer(desk, other_tenant):
    case, said = under_review(desk)
    (row,) = waiting_reviews(actor=desk.second)
    assert (row["about"], row["id"], row["title"]) == ("case", case["id"], case["title"])
    assert (row["resolution"], row["proposed_by"], row["risk"]) == ("resume_step", desk.oncall.label, case["risk"])
    assert (row["repair_id"], row["due_at"]) == (uuid.UUID(said["repair_id"]), case["due_at"])
    assert row["proposed_at"] >= case["claimed_at"]
    assert [waiting(one) for one in (desk.admin, member(desk.tenant, "approver"))] == [[case["id"]]] * 2
    assert [waiting(one) for one in (desk.oncall, member(desk.tenant, "viewer"))] == [[], []]
    assert [waiting(member(other_tenant, role)) for role in ("oncall", "admin")] == [[], []]


@pytest.mark.parametrize("how", ["approve", "send_back", "kept", "handed"])
def test_what_is_decided_or_withdrawn_waits_no_more(desk, how: str):
    case, said = under_review(desk)
    assert waiting(desk.second) == [case["id"]]
    if how == "kept":
        due = case["now"] + timedelta(hours=4)
        keep_pending(actor=desk.oncall, case_id=case["id"], due_at=due, reason="later", expected_version=None)
    elif how == "handed":
        desk.release(case["id"])
        claim_case(actor=desk.second, case_id=case["id"])
    else:
        review(desk, case, said, how)
    assert [waiting(one) for one in (desk.second, desk.admin)] == [[], []]


def test_a_write_off_waits_only_for_who_may_write_off(desk):
    case = desk.saw(desk.taken(desk.lost("human"), desk.admin), "unknown", desk.admin)
    assert desk.propose(case, "write_off", desk.admin)["needs_review"]
    assert [waiting(one) for one in (desk.admin, desk.second)] == [[], []]
    assert waiting(member(desk.tenant, "admin")) == [case["id"]]


def bulk_ordered(desk: Desk) -> dict[str, Any]:
    for run_id in [desk.lost("human") for _ in range(2)]:
        desk.release(desk.saw(desk.taken(run_id), "absent")["id"])
    made = prepare_bulk(actor=desk.oncall, resolution="resume_step", filter={"tool": "desk.human@1"}, reason="back up")
    assert waiting(desk.second) == []
    return order_bulk(actor=desk.oncall, bulk_id=uuid.UUID(made["bulk_id"]), expected_version=made["version"])


@pytest.mark.parametrize("how", ["approve", "send_back", "abort"])
def test_an_ordered_bulk_repair_waits_until_it_is_decided(desk, how: str):
    said = bulk_ordered(desk)
    bulk_id = uuid.UUID(said["bulk_id"])
    (row,) = waiting_reviews(actor=desk.second)
    assert (row["about"], row["id"], row["cases"], row["resolution"]) == ("bulk", bulk_id, 2, "resume_step")
    assert (row["proposed_by"], row["risk"]) == (desk.oncall.label, "high")
    assert row["due_at"] == min(one.due_at for one in desk.cases())
    assert (waiting(desk.second), waiting(desk.oncall)) == ([bulk_id], [])
    if how == "abort":
        abort_bulk(actor=desk.oncall, bulk_id=bulk_id, reason="not today")
    else:
        version = said["version"]
        review_bulk(actor=desk.second, bulk_id=bulk_id, decision=how, expected_version=version, comment="looked at")
    assert waiting(desk.second) == []


# -- the mail


@pytest.fixture
def mailbox(settings, fresh_db, desk) -> list[Any]:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    mail.outbox = []
    for name in ("oncall", "second", "admin"):
        User.objects.filter(pk=getattr(desk, name).user_id).update(email=f"{name}@desk.example")
    return mail.outbox


def asked(desk: Desk) -> int:
    with tenant_tx(desk.tenant.id):
        return Outbox.objects.filter(topic="repair.review_asked").count()


def receivers(mailbox: list[Any]) -> list[str]:
    return sorted(address for message in mailbox for address in message.recipients())


def test_who_may_review_is_told_once_and_the_proposer_is_not(desk, mailbox, client):
    given = uuid.uuid4()
    case, _said = under_review(desk, repair_id=given)
    assert desk.propose(case, "resume_step", repair_id=given)["replayed"]
    assert asked(desk) == 1
    deliver()
    assert receivers(mailbox) == ["admin@desk.example", "second@desk.example"]
    message = mailbox[0]
    with tenant_tx(desk.tenant.id):
        key = Operation.objects.get(run_id=case["run_id"]).business_key
    assert message.subject.startswith("Review needed: ")
    assert key in message.subject
    assert message.subject.endswith(f" · {str(case['id'])[-8:]}")
    assert message.message()["References"] == f"<case.{case['id']}@127.0.0.1>"
    assert "Proposed: Resume the step" in message.body
    assert f"Proposed by: {desk.oncall.label}" in message.body
    path = f"/repairs/{case['id']}/?tenant={desk.tenant.slug}"
    assert f"http://127.0.0.1:8000{path}" in message.body.splitlines()
    # Whoever follows it, and however often, decides nothing.
    client.force_login(User.objects.get(pk=desk.second.user_id))
    assert [client.get(path).status_code for _ in range(2)] == [200, 200]
    assert waiting(desk.second) == [case["id"]]


def test_a_permission_of_ones_own_counts_like_a_role(desk, mailbox):
    widened, other = member(desk.tenant, "viewer"), member(desk.tenant, "viewer")
    with tenant_tx(desk.tenant.id):
        Membership.objects.filter(user_id=widened.user_id).update(extra_verbs=["repair.review"])
        Membership.objects.filter(user_id=other.user_id).update(extra_verbs=[STOP_READ])
        Membership.objects.filter(user_id=desk.second.user_id).update(ended_at="2026-01-01T00:00:00Z")
    for actor, name in ((widened, "widened"), (other, "other")):
        User.objects.filter(pk=actor.user_id).update(email=f"{name}@desk.example")
    under_review(desk)
    deliver()
    assert receivers(mailbox) == ["admin@desk.example", "widened@desk.example"]


def test_nobody_is_told_of_what_is_decided_by_then(desk, mailbox):
    case, said = under_review(desk)
    review(desk, case, said, "approve")
    assert deliver() == {"dropped": 1}
    assert mailbox == []


@pytest.mark.parametrize(
    ("make", "title", "says"),
    [(under_review, "需要复核：", "提议：继续该步骤"), (bulk_ordered, "需要复核：一次处理 2 个修复", "提议者：")],
    ids=["case", "bulk"],
)
def test_each_reviewer_is_told_in_their_language(desk, mailbox, make, title, says):
    choose_language(user=User.objects.get(pk=desk.second.user_id), language="zh-hans")
    make(desk)
    deliver()
    told = {message.recipients()[0]: message for message in mailbox}
    assert told["admin@desk.example"].subject.startswith("Review needed: ")
    assert told["second@desk.example"].subject.startswith(title)
    assert says in told["second@desk.example"].body
    assert "链接只打开页面" in told["second@desk.example"].body


def test_a_bulk_repair_asks_for_its_review_once_and_its_cases_do_not(desk, mailbox, clock):
    said = bulk_ordered(desk)
    deliver()
    assert receivers(mailbox) == ["admin@desk.example", "second@desk.example"]
    assert mailbox[0].subject == f"Review needed: 2 repair cases at once · {said['bulk_id'][-8:]}"
    assert f"/repairs/several/{said['bulk_id']}/" in mailbox[0].body
    bulk_id = uuid.UUID(said["bulk_id"])
    review_bulk(actor=desk.second, bulk_id=bulk_id, decision="approve", expected_version=said["version"])
    for _ in range(4):
        clock.advance(1)
        bulk_duty.carry_bulks()
    assert desk.cases() == []
    assert asked(desk) == 1
