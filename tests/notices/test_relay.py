"""What is sent at once: a receiver that is silent, slow or failing holds up what is for itself alone."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from approvals.actions.hooks import add_hook
from runtime.actions.notices import add_target
from runtime.kernel.messages import Webhook
from runtime.queries.messages import list_quarantined
from runtime.store.tx import tenant_tx
from runtime.worker import scheduler
from runtime.worker.maintenance import webhooks
from runtime.worker.maintenance.outbox import deliver
from tests.support.workers import until

pytestmark = [pytest.mark.req("C2.4", "C5.3", "C6.3"), pytest.mark.django_db(transaction=True)]
FOR_EVER = 3600.0


@pytest.fixture
def patient_posts(monkeypatch):
    """Let no time end a post: only its receiver does."""
    monkeypatch.setattr(webhooks, "_TIMEOUT_SECONDS", FOR_EVER)
    monkeypatch.setattr(webhooks, "_WHOLE_SECONDS", FOR_EVER, raising=False)


@pytest.fixture
def sender(office):
    """Send as the scheduler does: ``stop`` asks it to stop, ``ended`` is set when it did."""
    ended, stop = threading.Event(), threading.Event()

    def run() -> None:
        try:
            scheduler.run(stop, only=[duty for duty in scheduler.duties() if duty.name == "outbox"])
        finally:
            connections.close_all()
            ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.stop, thread.ended = stop, ended
    thread.start()
    yield thread
    stop.set()


def hook(office, receiver, path="hook"):
    return add_hook(actor=office.admin, url=f"http://{receiver.host}/{path}", events=["asked"])


def ids(receiver):
    return [headers["webhook-id"] for headers, _body in receiver.taken]


def tries(office):
    with tenant_tx(office.tenant.id) as tx:
        rows = tx.conn.execute("SELECT attempts FROM qd_outbox WHERE topic = 'approval.event' ORDER BY created_at, id")
        return [row[0] for row in rows.fetchall()]


def test_receivers_that_never_answer_hold_up_no_mail_and_no_other_receiver(
    office, receiver, silent, configure, mailbox, patient_posts, sender
):
    configure(webhook_hosts=(receiver.host, silent.host))
    for number in range(3):
        hook(office, silent, str(number))
    hook(office, receiver)
    office.ask()
    until(lambda: len(silent.taken) == 3, 20, "the silent ones have accepted")
    # What comes to wait after they fell silent arrives too: its approver is told, and whoever else listens.
    office.ask()
    until(lambda: len(mailbox) == 2 and len(receiver.taken) == 2, 20, "the mails and the other receiver's events")
    assert not silent.answering.is_set()
    assert len(silent.taken) == 3
    silent.answering.set()
    until(lambda: len(silent.taken) == 6, 20, "each silent one's second event, after its first was answered")
    assert len(set(ids(silent))) == 6
    sender.stop.set()
    assert sender.ended.wait(60)


def test_more_silent_receivers_than_are_posted_to_at_once_hold_up_no_mail(
    office, silent, configure, mailbox, patient_posts, sender
):
    configure(webhook_hosts=(silent.host,))
    for number in range(12):
        hook(office, silent, str(number))
    add_target(actor=office.admin, kind="mail", address="queue@office.example")
    office.ask()
    until(lambda: len(silent.taken) == 8, 20, "as many posts as there are at once")
    office.ask()
    until(lambda: len(mailbox) == 2, 20, "the mails to approvers")
    assert len(silent.taken) == 8


def test_a_stop_waits_for_what_is_being_sent_and_begins_nothing_else(office, silent, configure, patient_posts, sender):
    configure(webhook_hosts=(silent.host,))
    hook(office, silent)
    office.ask()
    office.ask()
    until(lambda: silent.taken, 20, "the first is being sent")
    sender.stop.set()
    assert not sender.ended.wait(1)
    silent.answering.set()
    assert sender.ended.wait(60)
    assert sorted(tries(office)) == [0, 1]
    with tenant_tx(office.tenant.id) as tx:
        rows = tx.conn.execute("SELECT count(*) FROM qd_outbox WHERE topic = 'approval.event' AND sent_at IS NOT NULL")
        assert rows.fetchone() == (1,)


def test_what_is_for_a_receiver_that_fails_waits_together_and_spends_no_try(office, receiver, configure, clock):
    configure(webhook_hosts=(receiver.host,))
    hook(office, receiver)
    receiver.answers = [503]
    for _ in range(3):
        office.ask()
    assert deliver()["failed"] == 1
    office.ask()
    deliver()
    # One asked for all; what came to wait meanwhile waits with it.
    assert (len(receiver.taken), tries(office)) == (1, [1, 0, 0, 0])
    clock.advance(5)
    deliver()
    assert tries(office) == [2, 1, 1, 1]
    assert (ids(receiver)[-1], len(set(ids(receiver)))) == (ids(receiver)[0], 4)


def test_an_answer_about_one_message_holds_up_no_other(office, receiver, configure):
    configure(webhook_hosts=(receiver.host,))
    hook(office, receiver)
    receiver.answers = [422]
    office.ask()
    office.ask()
    assert deliver()["failed"] == 1
    assert tries(office) == [1, 1]
    assert len(set(ids(receiver))) == 2


def test_what_waited_for_too_long_is_given_up_with_the_receivers_reason(office, receiver, configure, clock):
    configure(webhook_hosts=(receiver.host,))
    hook(office, receiver)
    receiver.answers = [503] * 9
    for _ in range(3):
        office.ask()
    deliver()
    clock.advance(24 * 3600 + 1)
    assert deliver()["given_up"] == 3
    assert len(receiver.taken) == 2
    kept = list_quarantined(actor=office.admin)
    assert len(kept) == 3
    assert all("503" in one["reason"] for one in kept)


def test_a_receiver_that_answers_a_byte_at_a_time_is_left(receiver, configure, monkeypatch):
    configure(webhook_hosts=(receiver.host,))
    monkeypatch.setattr(webhooks, "_WHOLE_SECONDS", 1.0)
    receiver.drips = True
    message = Webhook(f"http://{receiver.host}/hook", "whsec_" + "A" * 44, "message_1", b"{}")
    with pytest.raises(webhooks.WebhookRefused, match="took longer"):
        webhooks.post(message)


def test_no_connection_to_the_database_is_left_by_what_was_sent(office, receiver, configure, mailbox):
    def open_here():
        with tenant_tx(office.tenant.id) as tx:
            query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            return tx.conn.execute(query).fetchone()[0]

    configure(webhook_hosts=(receiver.host,))
    for number in range(3):
        hook(office, receiver, str(number))
    office.ask()
    before = open_here()
    deliver()
    assert (len(receiver.taken), len(mailbox)) == (3, 1)
    until(lambda: open_here() == before, 20, "the threads' connections are closed")
