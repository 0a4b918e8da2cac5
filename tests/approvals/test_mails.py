"""The mail that a decision is waiting: to those who may decide, without the payload; its link decides nothing."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.core import mail

from runtime.worker.maintenance.outbox import deliver

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
    assert message.subject == "Approval needed: Pay out"
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
    office.pending(office.ask(title="Pay\u202e out\u200b"))
    deliver()
    (message,) = mailbox
    assert message.subject == "Approval needed: Pay⟨U+202E⟩ out⟨U+200B⟩"
    assert "A decision is waiting: Pay⟨U+202E⟩ out⟨U+200B⟩" in message.body
    assert not any(sign in message.body for sign in "\u202e\u200b")
