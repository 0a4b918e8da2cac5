"""The mail that a case is overdue: whom it is for, and where its link leads."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from repair.mails import overdue
from runtime.store.tx import tenant_tx
from tests.support.desk import Desk

pytestmark = [pytest.mark.req("C8.4"), pytest.mark.django_db(transaction=True)]


def test_the_mail_about_an_overdue_case_leads_to_it_in_its_tenant(tenant):
    desk = Desk(tenant)
    User.objects.filter(pk=desk.oncall.user_id).update(email="oncall@desk.example")
    case = desk.case(desk.lost("human"))
    with tenant_tx(tenant.id) as tx:
        mail = overdue(tx, {"case_id": str(case["id"])})
    assert mail is not None
    assert "oncall@desk.example" in mail.to
    assert mail.text.splitlines()[-1] == f"http://127.0.0.1:8000/repairs/{case['id']}/?tenant={tenant.slug}"
