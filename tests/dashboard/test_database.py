"""A page whose database is away says so; one whose query is wrong is a fault of ours, logged and not shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import IntegerField, Value
from django.db.models.expressions import CombinedExpression
from django.http import HttpRequest, HttpResponse
from django.urls import path

from dashboard.config import urls
from dashboard.pages.console import page
from runtime.kernel.actor import Actor
from runtime.models import Tenant
from runtime.store.tx import tenant_tx
from tests.support import db as support
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C6.1"), pytest.mark.django_db(transaction=True)]


@page()
def broken(request: HttpRequest, actor: Actor) -> HttpResponse:
    """A page with a query that the database refuses."""
    nonsense = CombinedExpression(Value(7311), "/", Value(0), output_field=IntegerField())
    with tenant_tx(actor.tenant_id):
        return HttpResponse(str(Tenant.objects.annotate(n=nonsense).values_list("n")[0]))


urlpatterns = [*urls.urlpatterns, path("broken/", broken)]
handler404, handler500 = urls.handler404, urls.handler500


@pytest.mark.urls(__name__)
def test_a_query_that_is_wrong_is_logged_and_is_no_outage(tenant: Tenant, caplog: Any):
    reader = Reader(tenant, "admin")
    shown = reader.get("/broken/", 500)
    assert "The fault is on our side and was logged." in shown
    assert "database is away" not in shown
    assert "division by zero" not in shown
    assert 'class="side"' in shown, "one can go on elsewhere"
    assert "division by zero" in caplog.text
    reader.get("/now/")


def test_an_outage_is_called_one_and_quotes_nothing(tenant: Tenant):
    reader = Reader(tenant, "admin")
    with support.switched("default", NAME="qd_nowhere"):
        for path in ("/now/", "/runs/"):
            answer = reader.client.get(path)
            shown = answer.content.decode()
            assert (answer.status_code, answer["Retry-After"]) == (503, "2")
            assert "Not recorded: the database is away" in shown
            assert "qd_nowhere" not in shown
        answer = reader.client.get("/runs/", headers={"HX-Request": "true"})
        assert answer.status_code == 503
        assert "The database is away." in answer.content.decode()
    reader.get("/now/")


NUL = ("/repairs/?kind=%00", "/repairs/several/?tool=%00", "/repairs/runbooks/?tool=%00", "/workflows/%00/")


def test_a_character_that_no_database_stores_is_the_readers_mistake(tenant: Tenant):
    reader = Reader(tenant, "admin")
    for address in NUL:
        shown = reader.get(address, 400)
        assert "What was sent cannot be stored." in shown, address
        assert "was logged" not in shown, address
    book = {"tool": "a\x00", "error_class": "", "text": "x", "expected_version": "0", "reason": ""}
    reader.post("/repairs/runbooks/", book, 400)
