"""The quarantine's page: what could not be sent, why, and the two things a person may do with it."""

from __future__ import annotations

import re

import pytest

from runtime.kernel.ids import uuid7
from runtime.models import Quarantined
from runtime.store.tx import tenant_tx
from tests.support.pages import Reader

pytestmark = [pytest.mark.req("C2.6"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def message(made):
    """A message of the tenant in quarantine."""
    with tenant_tx(made.tenant.id) as tx:
        outbox_id = uuid7()
        tx.send("outbox_insert", (outbox_id, tx.tenant_id, uuid7(), "alert.opened", "{}", tx.now()))
        tx.send("quarantine_insert", (uuid7(), "The receiver answered 503.", outbox_id, 0))
        tx.send("message_done", ("The receiver answered 503.", outbox_id, 0))
        return Quarantined.objects.get(outbox_id=outbox_id)


def resolution(made, message):
    with tenant_tx(made.tenant.id):
        return Quarantined.objects.get(id=message.id).resolution


def test_it_is_shown_with_its_reason_and_replayed_under_its_id(made, message):
    reader = Reader(made.tenant, "oncall")
    page = reader.get("/messages/")
    assert "The receiver answered 503." in page
    assert str(message.event_id) in page
    reader.post(f"/messages/{message.id}/replay/", {"reason": "they are back"}, 302)
    assert resolution(made, message) == "replayed"


def test_the_age_of_the_oldest_unsent_message_is_told(made, clock, other_tenant):
    reader = Reader(made.tenant, "oncall")
    with tenant_tx(made.tenant.id) as tx:
        tx.send("outbox_insert", (uuid7(), tx.tenant_id, uuid7(), "alert.opened", "{}", tx.now()))
    clock.advance(125)
    assert re.search(r"the oldest unsent one for 2:\d\d", reader.get("/messages/"))
    page = Reader(other_tenant, "oncall").get("/messages/")
    assert "Nothing waits to be sent" in page
    assert "the oldest unsent one" not in page, "one's own messages only"


def test_a_replay_leaves_the_quarantine_and_is_told_with_who_and_when(made, message):
    reader = Reader(made.tenant, "oncall")
    page = reader.get("/messages/")
    assert "schema version 1" in page
    reader.post(f"/messages/{message.id}/replay/", {"reason": "they are back"}, 302)
    page = reader.get("/messages/")
    assert f"/messages/{message.id}/replay/" not in page
    assert "they are back" in page
    assert reader.user.username in page
    with tenant_tx(made.tenant.id) as tx:
        row = tx.conn.execute("SELECT event_id, sent_at FROM qd_outbox WHERE id = %s", (message.outbox_id,)).fetchone()
    assert row == (message.event_id, None), "the same row under its own event id, unsent again"


def test_discarding_needs_a_reason(made, message):
    reader = Reader(made.tenant, "oncall")
    reader.post(f"/messages/{message.id}/discard/", {"reason": ""}, 400)
    assert resolution(made, message) is None
    reader.post(f"/messages/{message.id}/discard/", {"reason": "nobody needs it"}, 302)
    assert resolution(made, message) == "discarded"


def test_who_may_not_does_nothing(made, message):
    Reader(made.tenant, "viewer").post(f"/messages/{message.id}/replay/", {}, 403)
    assert resolution(made, message) is None
