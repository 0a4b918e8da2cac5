"""Messages that cannot leave: quarantined with reason and version, replayed under their own id, or discarded."""

from __future__ import annotations

import uuid

import orjson
import pytest

from runtime.actions.messages import discard_message, replay_message
from runtime.kernel import seams
from runtime.kernel.errors import BadInput, Conflict, NotFound, PermissionDenied
from runtime.kernel.ids import uuid7
from runtime.kernel.messages import Mail
from runtime.queries.alerts import list_alerts
from runtime.queries.health import engine_numbers
from runtime.queries.messages import list_quarantined, outbox_numbers
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance import outbox
from runtime.worker.maintenance.alerts import evaluate
from runtime.worker.maintenance.outbox import deliver
from tests.support.actors import member
from tests.support.engine import refuse_writes

pytestmark = [pytest.mark.req("C2.4", "C2.6", "C6.3"), pytest.mark.django_db(transaction=True)]


def write(office, topic, payload=None) -> uuid.UUID:
    """Write a message; returns its event_id."""
    event_id = uuid7()
    with tenant_tx(office.tenant.id) as tx:
        body = orjson.dumps(payload or {}).decode()
        tx.send("outbox_insert", (uuid7(), tx.tenant_id, event_id, topic, body, tx.now()))
    return event_id


@pytest.fixture
def composer(monkeypatch):
    """A topic whose messages break while they are made, until ``mended``."""
    state = {"mended": False, "asked": 0}

    def compose(tx, payload):
        state["asked"] += 1
        if not state["mended"]:
            raise ValueError("no such field: due")
        return Mail(to=["ops@office.example"], subject="told", text=payload["text"])

    monkeypatch.setitem(seams._composers, "test.broken", compose)
    return state


def quarantine(office, composer, clock):
    event_id = write(office, "test.broken", {"text": "hello"})
    for _ in range(3):
        deliver()
        clock.advance(3600)
    [message] = list_quarantined(actor=office.admin)
    assert message["event_id"] == event_id
    return message


def test_a_message_that_cannot_be_made_stops_no_other(office, composer, mailbox, monkeypatch):
    write(office, "test.broken")
    monkeypatch.setitem(
        seams._composers, "test.good", lambda tx, payload: Mail(to=["a@office.example"], subject="s", text="t")
    )
    write(office, "test.good")
    assert deliver() == {"sent": 1, "failed": 1}
    assert len(mailbox) == 1


def test_more_messages_than_a_page_that_cannot_be_claimed_stop_no_other(fresh_db, office, mailbox, monkeypatch):
    monkeypatch.setattr(outbox, "_BATCH", 2)
    monkeypatch.setitem(
        seams._composers, "test.good", lambda tx, payload: Mail(to=["a@office.example"], subject="s", text="t")
    )
    for _ in range(5):
        refuse_writes(fresh_db, "qd_outbox", "event_id", write(office, "test.good"))
    write(office, "test.good")
    assert sum(deliver().get("sent", 0) for _ in range(4)) == 1
    assert len(mailbox) == 1


def test_poison_goes_to_quarantine_with_reason_and_version_and_is_replayed_under_its_id(
    office, composer, mailbox, clock
):
    message = quarantine(office, composer, clock)
    assert (message["topic"], message["schema_version"], message["attempts"]) == ("test.broken", 1, 3)
    assert "no such field: due" in message["reason"]
    assert message["payload"] == {"text": "hello"}
    assert deliver() == {}
    composer["mended"] = True
    answer = replay_message(actor=office.oncall, message_id=message["id"], reason="mended")
    assert (answer["event_id"], answer["replayed"]) == (str(message["event_id"]), False)
    assert replay_message(actor=office.oncall, message_id=message["id"])["replayed"] is True
    assert deliver() == {"sent": 1}
    assert deliver() == {}
    assert [mail.body for mail in mailbox] == ["hello"]
    with tenant_tx(office.tenant.id) as tx:
        rows = tx.conn.execute("SELECT event_id, sent_at IS NOT NULL FROM qd_outbox").fetchall()
    assert rows == [(message["event_id"], True)]
    [closed] = list_quarantined(actor=office.admin, state="closed")
    assert (closed["resolution"], closed["closed_by"]) == ("replayed", office.oncall.label)


def test_a_replayed_message_that_fails_again_is_quarantined_again(office, composer, clock):
    first = quarantine(office, composer, clock)
    replay_message(actor=office.oncall, message_id=first["id"])
    for _ in range(3):
        deliver()
        clock.advance(3600)
    [again] = list_quarantined(actor=office.admin)
    assert (again["event_id"], again["id"] != first["id"]) == (first["event_id"], True)


def test_discarding_needs_a_reason_and_ends_it(office, composer, clock):
    message = quarantine(office, composer, clock)
    with pytest.raises(BadInput):
        discard_message(actor=office.oncall, message_id=message["id"], reason=" ")
    discard_message(actor=office.oncall, message_id=message["id"], reason="nobody needs it")
    with pytest.raises(Conflict):
        replay_message(actor=office.oncall, message_id=message["id"])
    assert deliver() == {}
    assert list_quarantined(actor=office.admin) == []


def test_a_topic_that_nobody_makes_is_kept(office, clock):
    write(office, "from.the.future")
    for _ in range(3):
        deliver()
        clock.advance(3600)
    [message] = list_quarantined(actor=office.admin)
    assert "nobody makes" in message["reason"]


def test_who_may_not_changes_nothing(office, composer, clock, other_tenant):
    message = quarantine(office, composer, clock)
    with pytest.raises(PermissionDenied):
        replay_message(actor=member(office.tenant, "viewer"), message_id=message["id"])
    with pytest.raises(PermissionDenied):
        list_quarantined(actor=member(office.tenant, "viewer"))
    with pytest.raises(NotFound):
        replay_message(actor=member(other_tenant, "admin"), message_id=message["id"])
    assert list_quarantined(actor=member(other_tenant, "admin")) == []
    assert len(list_quarantined(actor=office.admin)) == 1


def test_the_age_of_the_oldest_is_measured_and_told(office, composer, clock):
    assert outbox_numbers(actor=office.admin) == {
        "unsent": 0, "oldest_unsent_seconds": None, "retrying": 0, "quarantined": 0,
    }  # fmt: skip
    write(office, "test.broken")
    deliver()
    clock.advance(700)
    numbers = outbox_numbers(actor=office.admin)
    assert (numbers["unsent"], numbers["retrying"]) == (1, 1)
    assert numbers["oldest_unsent_seconds"] >= 700
    assert engine_numbers()["outbox_oldest_seconds"] >= 700
    evaluate()
    assert len(list_alerts(actor=office.admin, rule="outbox_old").items) == 1
    for _ in range(2):
        deliver()
        clock.advance(3600)
    evaluate()
    assert list_alerts(actor=office.admin, rule="outbox_old").items == []
    [alert] = list_alerts(actor=office.admin, rule="quarantined").items
    assert "test.broken" in alert["title"]


def test_the_budget_is_time_as_well(office, clock):
    write(office, "test.unknown")
    clock.advance(24 * 3600 + 1)
    assert deliver() == {"given_up": 1}


def test_a_claim_that_ran_out_is_sent_again_under_the_same_id_and_marked_by_its_holder(
    office, mailbox, monkeypatch, clock
):
    """A relay that stood still while another took its message over marks nothing."""
    seen = []

    def compose(tx, payload):
        seen.append(payload)
        if len(seen) == 1:
            clock.advance(121)
            assert deliver() == {"sent": 1}
        return Mail(to=["a@office.example"], subject="s", text="t")

    monkeypatch.setitem(seams._composers, "test.slow", compose)
    write(office, "test.slow")
    deliver()
    with tenant_tx(office.tenant.id) as tx:
        rows = tx.conn.execute("SELECT attempts, sent_at IS NOT NULL, error FROM qd_outbox").fetchall()
    assert rows == [(2, True, None)]
    assert len(mailbox) == 2
