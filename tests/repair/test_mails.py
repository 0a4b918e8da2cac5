"""The mail that a case is overdue: whom it is for, and where its link leads."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from repair.mails import overdue
from runtime.actions.languages import choose_language
from runtime.store.tx import tenant_tx
from tests.support.desk import Desk

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


def test_the_mail_about_an_overdue_case_leads_to_it_in_its_tenant(tenant):
    desk = Desk(tenant)
    User.objects.filter(pk=desk.oncall.user_id).update(email="oncall@desk.example")
    case = desk.case(desk.lost("human"))
    with tenant_tx(tenant.id) as tx:
        (mail,) = overdue(tx, {"case_id": str(case["id"])})
    assert "oncall@desk.example" in mail.to
    assert mail.text.splitlines()[-1] == f"http://127.0.0.1:8000/repairs/{case['id']}/?tenant={tenant.slug}"


def test_each_is_told_of_an_overdue_case_in_their_language(tenant):
    desk = Desk(tenant)
    for actor, address in ((desk.oncall, "oncall@desk.example"), (desk.second, "second@desk.example")):
        User.objects.filter(pk=actor.user_id).update(email=address)
    choose_language(user=User.objects.get(pk=desk.second.user_id), language="zh-hans")
    case = desk.case(desk.lost("human"))
    with tenant_tx(tenant.id) as tx:
        tx.conn.execute("UPDATE qd_case SET escalated_to = 'owner', version = version + 1 WHERE id = %s", [case["id"]])
        mails = {mail.language: mail for mail in overdue(tx, {"case_id": str(case["id"])})}
    assert {language: mail.to for language, mail in mails.items()} == {
        "en": ["oncall@desk.example"],
        "zh-hans": ["second@desk.example"],
    }
    assert mails["en"].subject.startswith("Repair overdue: No receipt for ")
    assert mails["zh-hans"].subject.startswith("修复已逾期：")
    assert "负责人：" in mails["zh-hans"].text
    assert "receipt" not in mails["zh-hans"].text, "what the engine wrote down is told in their language too"
