"""Mails are written in the language that each reader chose; one that did not go holds up no other language's (C6.3)."""

from __future__ import annotations

from smtplib import SMTPException

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client

from runtime.actions.languages import choose_language
from runtime.actions.notices import add_target
from runtime.kernel.errors import BadInput
from runtime.queries.messages import list_quarantined
from runtime.store.languages import language_of
from runtime.worker.maintenance.alerts import evaluate
from runtime.worker.maintenance.outbox import deliver
from tests.support.actors import member
from tests.support.factories import make_member, make_user
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("A7.2", "C6.3"), pytest.mark.django_db(transaction=True)]
COOKIE = django_settings.LANGUAGE_COOKIE_NAME
REFUSED: set[str] = set()


class Refusing(EmailBackend):
    """Sends to memory, but for mails to an address that is refused."""

    def send_messages(self, messages):
        for one in messages:
            if REFUSED & set(one.recipients()):
                raise SMTPException("no such box")
        return super().send_messages(messages)


@pytest.fixture
def refusing(settings, mailbox):
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    yield REFUSED
    REFUSED.clear()


def boxed(office, role: str, box: str, language: str | None = None):
    """Return a member with an address, who chose a language."""
    one = member(office.tenant, role)
    User.objects.filter(pk=one.user_id).update(email=f"{box}@office.example")
    if language:
        choose_language(user=User.objects.get(pk=one.user_id), language=language)
    return one


def told() -> dict[str, list[str]]:
    """Send what is due; return subject (without what tells its thing from others) → names of boxes."""
    mail.outbox.clear()
    deliver()
    return {
        one.subject.partition(" · ")[0]: sorted(to.partition("@")[0] for to in one.recipients()) for one in mail.outbox
    }


def test_one_mail_for_each_language_in_that_language(office, mailbox):
    User.objects.filter(pk=office.approver.user_id).update(email="ann@office.example")
    boxed(office, "approver", "bo")
    boxed(office, "approver", "cheng", "zh-hans")
    boxed(office, "approver", "ding", "zh-hans")
    office.pending(office.ask())
    assert told() == {"Approval needed: Pay out": ["ann", "bo"], "需要审批：Pay out": ["cheng", "ding"]}
    (chinese,) = [one for one in mail.outbox if "审批" in one.subject]
    assert (chinese.to, len(chinese.bcc)) == ([], 2), "they do not see each other"
    for words in ("有一项待审批：Pay out", "请求人：", "请在此之前决定：", "链接只打开页面；登录后在页面上作出决定。"):
        assert words in chinese.body
    assert "Requested by" not in chinese.body
    assert told() == {}


def test_a_language_that_is_spoken_no_more_is_the_default(office, mailbox, settings):
    User.objects.filter(pk=office.approver.user_id).update(email="ann@office.example")
    choose_language(user=User.objects.get(pk=office.approver.user_id), language="zh-hans")
    settings.LANGUAGES = [("en", "English")]
    office.pending(office.ask())
    assert told() == {"Approval needed: Pay out": ["ann"]}
    with pytest.raises(BadInput):
        choose_language(user=User.objects.get(pk=office.approver.user_id), language="zh-hans")


def test_nobody_gets_a_mail_again_because_another_ones_did_not_go(office, refusing, clock):
    User.objects.filter(pk=office.approver.user_id).update(email="ann@office.example")
    boxed(office, "approver", "cheng", "zh-hans")
    refusing.add("cheng@office.example")
    office.pending(office.ask())
    assert told() == {"Approval needed: Pay out": ["ann"]}
    for _ in range(3):
        clock.advance(600)
        assert told() == {}
    refusing.clear()
    clock.advance(600)
    assert told() == {"需要审批：Pay out": ["cheng"]}
    clock.advance(3600)
    assert told() == {}


def test_what_is_given_up_keeps_whom_it_reached(office, refusing, clock):
    User.objects.filter(pk=office.approver.user_id).update(email="ann@office.example")
    boxed(office, "approver", "cheng", "zh-hans")
    refusing.add("cheng@office.example")
    office.pending(office.ask(expires_s=90_000))
    for _ in range(12):
        deliver()
        clock.advance(3600)
    (kept,) = [one for one in list_quarantined(actor=office.admin) if one["payload"].get("why", "asked") == "asked"]
    assert kept["payload"]["told"] == ["en"]


@pytest.mark.req("A9.9")
def test_alerts_are_told_in_the_language_of_who_is_on_call_and_of_a_members_target(office, mailbox, clock):
    choose_language(user=User.objects.get(pk=office.oncall.user_id), language="zh-hans")
    one = {"id": "a", "kind": "tool", "tool": "core.echo@1", "input": {}}
    office.submit({"format": "quarterdeck/1", "name": "one", "nodes": [one]})
    office.finish("a", "failed")
    evaluate()
    clock.advance(31)
    evaluate()
    (subject,) = told()
    assert subject.startswith("[警告] ")
    assert "失败的运行" in subject
    (message,) = mail.outbox
    assert "UTC 起" in message.body
    assert "Since" not in message.body
    clock.advance(1000)
    evaluate()
    boxed(office, "viewer", "wei", "zh-hans")
    for box in ("wei", "elsewhere"):
        add_target(actor=office.admin, kind="mail", address=f"{box}@office.example")
    office.submit({"format": "quarterdeck/1", "name": "one", "nodes": [one]})
    office.finish("a", "failed")
    evaluate()
    clock.advance(31)
    evaluate()
    boxes = {boxes[0]: subject[:4] for subject, boxes in told().items()}
    assert boxes == {"wei": "[警告]", "elsewhere": "[war"}


def test_a_choice_in_the_console_is_the_persons_in_every_browser(office):
    reader = Reader(office.tenant, "approver")
    assert language_of(reader.user.pk) is None
    reader.post("/preferences/", {"language": "xx", "next": "/now/"})
    assert language_of(reader.user.pk) is None
    for language in ("zh-hans", "en", "zh-hans"):
        reader.post("/preferences/", {"language": language, "next": "/now/"})
        assert language_of(reader.user.pk) == language
    words = {"username": reader.user.username, "password": "correct horse battery"}
    elsewhere = Client()
    elsewhere.post("/sign-in/", words)
    assert elsewhere.cookies[COOKIE].value == "zh-hans"
    assert 'lang="zh-hans"' in elsewhere.get("/now/").content.decode()
    # A browser's own choice stays that browser's, and changes nothing of the person's.
    shared = Client()
    shared.cookies[COOKIE] = "en"
    shared.post("/sign-in/", words)
    assert shared.cookies[COOKIE].value == "en"
    assert language_of(reader.user.pk) == "zh-hans"


def test_who_chose_before_they_signed_in_has_chosen(office):
    user = make_member(office.tenant, "viewer", make_user(password="correct horse battery"))
    client = Client()
    client.post("/preferences/", {"language": "zh-hans", "next": "/sign-in/"})
    client.post("/sign-in/", {"username": user.username, "password": "wrong"})
    assert language_of(user.pk) is None
    client.post("/sign-in/", {"username": user.username, "password": "correct horse battery"})
    assert language_of(user.pk) == "zh-hans"
