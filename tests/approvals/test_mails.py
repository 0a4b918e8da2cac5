"""The mail that a decision is waiting: to those who may decide, without the payload; its link decides nothing."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.core import mail

from approvals.actions.comments import comment_request
from approvals.actions.handling import delegate_request
from approvals.actions.times import escalate_request
from runtime.actions.tenants import add_member
from runtime.models import Outbox
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.outbox import deliver
from tests.support.actors import member

pytestmark = [pytest.mark.req("A7.2", "C5.6"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def mailbox(settings, fresh_db, office):
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    mail.outbox = []
    user = User.objects.get(pk=office.approver.user_id)
    user.email = "approver@office.example"
    user.save()
    return mail.outbox


def test_the_approver_is_told(office, mailbox, client):
    request = office.pending(office.ask({"to": "Ada Secret"}))
    deliver()
    (message,) = mailbox
    assert message.recipients() == ["approver@office.example"]
    assert message.subject == f"Approval needed: Pay out · {str(request['id'])[-8:]}"
    (link,) = re.findall(r"http\S+", message.body)
    path = link.removeprefix("http://127.0.0.1:8000")
    assert path == f"/inbox/{request['id']}/?tenant={office.tenant.slug}"
    assert "Secret" not in message.body
    # A scanner that follows it, signed in or not, decides nothing.
    for _ in range(2):
        client.get(path)
        client.head(path)
        client.force_login(User.objects.get(pk=office.approver.user_id))
    page = client.get(path)
    assert (page.status_code, request["payload_hash"] in page.content.decode()) == (200, True)
    assert office.pending(request["run_id"])["state"] == "pending"
    assert deliver() == {}


def test_nobody_is_told_of_what_is_decided(office, mailbox):
    office.decide(office.pending(office.ask()))
    assert deliver() == {"dropped": 1}
    assert mailbox == []


@pytest.mark.req("C5.3", "C8.5")
def test_a_mail_has_no_hidden_characters(office, mailbox):
    request = office.pending(office.ask(title="Pay\u202e out\u200b"))
    deliver()
    (message,) = mailbox
    assert message.subject == f"Approval needed: Pay⟨U+202E⟩ out⟨U+200B⟩ · {str(request['id'])[-8:]}"
    assert "A decision is waiting: Pay⟨U+202E⟩ out⟨U+200B⟩" in message.body
    assert not any(sign in message.body for sign in "\u202e\u200b")


@pytest.mark.req("B5.3")
def test_mails_with_one_title_tell_which_request_each_is_about(office, mailbox):
    first, second = (office.pending(office.ask(target={"id": f"order {n}"})) for n in (4711, 4712))
    third = office.pending(office.ask(target={"id": f"order {'9' * 80}"}))
    deliver()
    ends = [str(one["id"])[-8:] for one in (first, second, third)]
    assert [one.subject for one in sorted(mailbox, key=lambda one: ends.index(one.subject[-8:]))] == [
        f"Approval needed: Pay out · order 4711 · {ends[0]}",
        f"Approval needed: Pay out · order 4712 · {ends[1]}",
        f"Approval needed: Pay out · order {'9' * 53}… · {ends[2]}",
    ]
    assert len({one.extra_headers["Message-ID"] for one in mailbox}) == 3
    assert len({one.extra_headers["References"] for one in mailbox}) == 3


@pytest.mark.req("B5.3")
def test_all_mails_about_a_request_are_one_thread_and_one_that_is_sent_again_is_the_same(office, mailbox):
    cleo = boxed(office, "approver", "cleo")
    request = office.pending(office.ask())
    deliver()
    delegate_request(actor=office.approver, request_id=request["id"], to=cleo.name, reason="yours")
    deliver()
    asked, handed = mailbox
    assert asked.extra_headers["Message-ID"] != handed.extra_headers["Message-ID"]
    root = f"<request.{request['id']}@127.0.0.1>"
    for one in mailbox:
        head = one.message()
        assert (head["References"], head["In-Reply-To"]) == (root, root)
    # Its sender died after the mail had left and before it was marked.
    with tenant_tx(office.tenant.id):
        Outbox.objects.update(sent_at=None, claimed_until=None)
    deliver()
    again = [one.extra_headers["Message-ID"] for one in mailbox[2:]]
    assert sorted(again) == sorted(one.extra_headers["Message-ID"] for one in (asked, handed))


def told(mailbox, office) -> list[tuple[str, list[str]]]:
    """Send what is due; return (subject without its id, who by the name of their box) of each mail since then."""
    mailbox.clear()
    deliver()
    return sorted(
        (one.subject.rpartition(" · ")[0], sorted(to.partition("@")[0] for to in one.recipients())) for one in mailbox
    )


def boxed(office, role: str, box: str):
    """Return a member of the office with a mailbox."""
    one = member(office.tenant, role)
    User.objects.filter(pk=one.user_id).update(email=f"{box}@office.example")
    return one


@pytest.mark.req("A7.2")
def test_who_is_mentioned_is_told_and_nobody_else(office, mailbox):
    ben = boxed(office, "viewer", "ben")
    request = office.pending(office.ask({"to": "Ada Secret"}))
    assert told(mailbox, office) == [("Approval needed: Pay out", ["approver"])]
    text = f"is this right, @{ben.name}? @nobody.there"
    comment_request(actor=office.approver, request_id=request["id"], text=text)
    assert told(mailbox, office) == [("You are mentioned: Pay out", ["ben"])]
    assert "Secret" not in mailbox[0].body
    assert "is this right" not in mailbox[0].body, "a comment is read on the page"


@pytest.mark.req("A7.2", "C8.5")
def test_who_a_request_is_handed_to_is_told_and_from_then_on_they_alone(office, mailbox):
    cleo = boxed(office, "approver", "cleo")
    request = office.pending(office.ask(name="slow", expires_s=3600))
    assert told(mailbox, office) == [("Approval needed: Pay out", ["approver", "cleo"])]
    delegate_request(actor=office.approver, request_id=request["id"], to=cleo.name, reason="yours")
    assert told(mailbox, office) == [("Handed over to you: Pay out", ["cleo"])]


@pytest.mark.req("A7.3", "B6.4")
def test_an_escalation_is_told_to_the_next_role_and_to_nobody_who_had_it(office, mailbox):
    fay = boxed(office, "finance", "fay")
    add_member(actor=office.admin, username=fay.name, role="finance", extra_verbs=["approval.decide"])
    boxed(office, "admin", "ann")
    ask = {"on_timeout": "escalate", "escalation": [{"role": "finance"}]}
    request = office.pending(office.ask(name="ladder", **ask))
    assert told(mailbox, office) == [("Approval needed: Pay out", ["approver"])]
    escalate_request(actor=office.approver, request_id=request["id"], reason="too large for me")
    assert told(mailbox, office) == [("Escalated to you: Pay out", ["fay"])]
    escalate_request(actor=office.admin, request_id=request["id"], reason="finance is away")
    assert told(mailbox, office) == [("Escalated to you: Pay out", ["ann"])]


@pytest.mark.req("A7.3")
def test_a_message_about_a_closed_request_or_one_without_a_mailbox_is_sent_to_nobody(office, mailbox):
    dan = member(office.tenant, "approver")
    request = office.pending(office.ask())
    told(mailbox, office)
    delegate_request(actor=office.approver, request_id=request["id"], to=dan.name, reason="yours")
    assert told(mailbox, office) == [], "who has it has no mailbox, and it is nobody else's"
    comment_request(actor=office.approver, request_id=request["id"], text=f"see this @{office.approver.name}")
    office.decide(office.pending(request["run_id"]), actor=dan)
    assert told(mailbox, office) == []
