"""Alerts: grouped, told once after a grace, closed quietly; mails and signed webhooks leave through the outbox."""

from __future__ import annotations

import json
import re
import uuid

import pytest
from django.contrib.auth.models import User
from standardwebhooks import Webhook, WebhookVerificationError

from runtime.actions.limits import close_breaker
from runtime.actions.notices import add_target, remove_target
from runtime.actions.reruns import new_run
from runtime.kernel.conf import conf
from runtime.kernel.errors import BadInput
from runtime.queries.alerts import list_alerts
from runtime.store.tx import plain_tx, tenant_tx
from runtime.tools.registry import register_tool
from runtime.worker.maintenance.alerts import evaluate
from runtime.worker.maintenance.lost import end_expired_sessions
from runtime.worker.maintenance.outbox import deliver
from tests.support.actors import member
from tests.support.engine import Engine, refuse_writes
from tests.support.factories import make_tenant
from tests.support.office import Office, writing

pytestmark = [pytest.mark.req("A9.9", "C6.3"), pytest.mark.django_db(transaction=True)]

ONE = {
    "format": "quarterdeck/1",
    "name": "one",
    "nodes": [{"id": "a", "kind": "tool", "tool": "core.echo@1", "input": {}}],
}


def alerts(office, state="open", rule=None):
    return list_alerts(actor=office.admin, state=state, rule=rule).items


def fail(office) -> uuid.UUID:
    run_id = office.submit(ONE)
    office.finish("a", "failed")
    return run_id


def test_failures_of_one_kind_are_one_alert(office, clock):
    first, second = fail(office), fail(office)
    evaluate()
    (alert,) = alerts(office)
    assert (alert["rule"], alert["count"], alert["notified_at"]) == ("failed_runs", 2, None)
    assert {subject["run_id"] for subject in alert["subjects"]} == {str(first), str(second)}
    assert "one, step a, business" in alert["title"]
    fail(office)
    evaluate()
    (again,) = alerts(office)
    assert (again["id"], again["count"], again["last_at"] > again["first_at"]) == (alert["id"], 3, True)


def test_a_broken_tenant_silences_no_other(fresh_db, office, clock):
    """Tenants are looked at in the order of their slugs; this one comes first."""
    broken = Office(make_tenant("a-broken-one"))
    refuse_writes(fresh_db, "qd_alert", "tenant_id", broken.tenant.id)
    fail(broken)
    fail(office)
    assert evaluate()["opened"] == 1
    assert alerts(broken) == []
    assert [alert["rule"] for alert in alerts(office)] == ["failed_runs"]


@pytest.mark.req("A4.2")
def test_a_queue_that_begins_to_refuse_is_an_alert_and_ends_with_it(office, clock, settings):
    """From half of the mark on experiments are refused: somebody hears of it before all are."""
    settings.QUARTERDECK = {**settings.QUARTERDECK, "tenant_high_water": 4}
    conf.cache_clear()
    try:
        run_ids = [office.submit(ONE)]
        evaluate()
        assert alerts(office, rule="queue_full") == []
        run_ids.append(office.submit(ONE))
        evaluate()
        (alert,) = alerts(office, rule="queue_full")
        assert alert["severity"] == "warning"
        assert alert["subjects"][0]["label"].endswith(": 2")
        assert len([one for one in office.claim() if one.run_id in run_ids]) == 2
        evaluate()
        assert alerts(office, rule="queue_full") == []
    finally:
        settings.QUARTERDECK = {}
        conf.cache_clear()


@pytest.mark.req("C6.2")
def test_a_write_transaction_that_stays_open_is_an_alert_and_ends_with_it(fresh_db, office, configure):
    """Streams of events are read only up to the oldest transaction that has written; one that only reads is none."""
    configure(long_write_seconds=0.3)
    with fresh_db.connect("qd_worker") as writer, fresh_db.connect("qd_web") as reader:
        writer.execute("SET application_name TO 'a slow program'")
        for connection in (writer, reader):
            connection.execute("BEGIN")
        reader.execute("SELECT 1")
        writer.execute("SELECT pg_current_xact_id()")
        evaluate()
        assert alerts(office, rule="long_write") == []
        writer.execute("SELECT pg_sleep(0.4)")
        evaluate()
        (alert,) = alerts(office, rule="long_write")
        assert (alert["severity"], alert["count"]) == ("warning", 1)
        (subject,) = alert["subjects"]
        assert subject["label"].startswith(f"process {writer.info.backend_pid} (a slow program), idle in transaction: ")
        evaluate()
        assert alerts(office, rule="long_write")[0]["id"] == alert["id"]
        writer.execute("COMMIT")
        evaluate()
        assert alerts(office, rule="long_write") == []
        reader.execute("ROLLBACK")


def test_it_is_told_after_the_grace_and_once(office, mailbox, clock, client):
    fail(office)
    evaluate()
    deliver()
    assert mailbox == []
    clock.advance(31)
    evaluate()
    evaluate()
    deliver()
    deliver()
    (mail,) = [m for m in mailbox if m.subject.startswith("[warning]")]
    # Without a target it goes to those on call.
    assert mail.recipients() == [f"{office.oncall.name}@office.example"]
    assert "Failed runs: one, step a, refused by the rules of the business" in mail.subject
    (link,) = re.findall(r"http\S+", mail.body)
    client.force_login(User.objects.get(pk=office.oncall.user_id))
    assert client.get(link.removeprefix("http://127.0.0.1:8000")).status_code == 200
    clock.advance(1000)
    evaluate()
    assert alerts(office) == []
    (closed,) = alerts(office, "closed")
    assert closed["closed_at"] is not None
    deliver()
    assert len([m for m in mailbox if m.subject.startswith("[warning]")]) == 1


def test_what_heals_stays_quiet(office, mailbox, clock):
    run_id = fail(office)
    evaluate()
    assert len(alerts(office)) == 1
    task_id = office.run(run_id).task_id
    again = new_run(actor=office.admin, task_id=task_id, reason="again")
    office.work()
    assert office.run(uuid.UUID(str(again["run_id"]))).status == "completed"
    clock.advance(60)
    evaluate()
    deliver()
    assert alerts(office) == []
    assert mailbox == []


def test_a_rejection_is_no_failure(office):
    run_id = office.ask()
    office.decide(office.pending(run_id), "reject")
    assert office.run(run_id).status == "failed"
    evaluate()
    assert alerts(office) == []


@pytest.mark.req("C3.4")
def test_an_unknown_effect_and_a_run_in_need(office):
    from tests.support.office import asking

    run_id = office.submit(asking("loses", gates=[]), {"to": "Ada"})
    office.work()
    office.decide(office.pending(run_id))
    office.finish("ask", value={"approved": True})
    (pay,) = office.claim()
    office.lose(pay)
    evaluate()
    rules = {alert["rule"]: alert for alert in alerts(office)}
    assert rules["unknown_operations"]["subjects"][0]["label"] == "pay:Ada"
    assert rules["needs_attention"]["subjects"][0]["run_id"] == str(run_id)
    assert {alert["severity"] for alert in rules.values()} == {"critical"}


@pytest.mark.req("C3.1")
@pytest.mark.parametrize("owner", ["finance", "oncall", "the payments team"], ids=["role", "those-on-call", "team"])
def test_an_unknown_effect_is_told_to_who_answers_for_its_tool(office, mailbox, clock, owner):
    clerk = member(office.tenant, "finance")
    User.objects.filter(pk=clerk.user_id).update(email="clerk@office.example")
    register_tool(actor=office.actor, contract=writing("office.owned", recovery="human", owner=owner))
    pay = {"id": "pay", "kind": "tool", "tool": "office.owned@1", "input": {}}
    office.submit({**ONE, "name": "owned", "nodes": [pay]})
    office.lose(office.claim()[0])
    evaluate()
    clock.advance(31)
    evaluate()
    deliver()
    told = [one.recipients() for one in mailbox if "office.owned@1" in one.subject]
    assert told == [
        [f"{office.oncall.name}@office.example"],
        *([["clerk@office.example"]] if owner == "finance" else []),
    ]


def test_an_old_queue(office, clock):
    office.submit(ONE)
    evaluate()
    assert alerts(office) == []
    clock.advance(61)
    evaluate()
    (alert,) = alerts(office, rule="queue_old")
    assert alert["subjects"][0]["label"] == "a"
    office.renew()
    office.work()
    evaluate()
    assert alerts(office, rule="queue_old") == []


def test_a_lost_worker_is_told_unless_it_was_replaced(office, fresh_db):
    host = f"host-{uuid.uuid4().hex[:8]}"

    def session() -> uuid.UUID:
        session_id = office.open_session()
        with fresh_db.connect() as connection:
            connection.execute("UPDATE qd_worker_session SET host = %s WHERE id = %s", [host, session_id])
        return session_id

    lost = session()
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [lost]))
    evaluate()
    (alert,) = alerts(office, rule="worker_lost")
    assert host in alert["title"]
    session()
    evaluate()
    assert alerts(office, rule="worker_lost") == []
    stalled = session()
    with plain_tx() as tx:
        tx.send("mark_stalled", ([stalled],))
    with fresh_db.connect() as connection:
        connection.execute(
            "UPDATE qd_worker_session SET started_at = now() - interval '1 hour' WHERE host = %s", [host]
        )
        connection.execute("UPDATE qd_worker_session SET lease_until = now() WHERE id = %s", [stalled])
        connection.execute(
            "UPDATE qd_worker_session SET ended_at = now() WHERE host = %s AND id <> %s", [host, stalled]
        )
    end_expired_sessions()
    evaluate()
    (alert,) = alerts(office, rule="worker_stalled")
    assert alert["subjects"][0]["label"].endswith("no_progress")


@pytest.mark.req("A4.2")
def test_a_queue_that_fills_up(office, configure):
    office.submit(ONE)
    evaluate()
    assert alerts(office, rule="queue_full") == []
    configure(tenant_high_water=2)
    evaluate()
    (alert,) = alerts(office, rule="queue_full")
    assert alert["subjects"][0]["label"] == "steps of this tenant that wait: 1"
    office.work()
    evaluate()
    assert alerts(office, rule="queue_full") == []


@pytest.mark.req("B4.2")
def test_a_tool_that_keeps_failing(office, configure):
    configure(breaker_failures=2)
    for _ in range(2):
        office.submit(ONE)
        office.finish("a", "failed", error={"class": "network", "message": "away"})
    evaluate()
    (alert,) = alerts(office, rule="circuit_open")
    assert "core.echo@1" in alert["title"]
    close_breaker(actor=office.admin, breaker_id=uuid.UUID(alert["subjects"][0]["id"]), reason="it is back")
    evaluate()
    assert alerts(office, rule="circuit_open") == []


@pytest.mark.req("A1.4", "C8.6")
def test_alerts_are_the_tenants_own(office, other_tenant):
    fail(office)
    evaluate()
    assert list_alerts(actor=Engine(other_tenant).actor).items == []


@pytest.mark.req("C7.4")
def test_a_webhook_is_signed_and_tried_again(office, receiver, configure, clock):
    configure(webhook_hosts=(receiver.host,))
    made = add_target(actor=office.admin, kind="webhook", address=f"http://{receiver.host}/hook")
    receiver.answers = [500, 302]
    fail(office)
    evaluate()
    clock.advance(31)
    evaluate()
    for _ in range(3):
        deliver()
        clock.advance(60)
    assert deliver() == {}
    assert len(receiver.taken) == 3  # a failure, a redirect that is not followed, and the one that was taken
    headers, body = receiver.taken[-1]
    told = Webhook(made["secret"]).verify(body, headers)
    assert (told["type"], told["data"]["rule"], told["data"]["count"]) == ("alert.opened", "failed_runs", 1)
    assert {h["webhook-id"] for h, _body in receiver.taken} == {headers["webhook-id"]}
    with pytest.raises(WebhookVerificationError):
        Webhook(made["secret"]).verify(body.replace(b"failed", b"foiled"), headers)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 44).verify(body, headers)


def test_a_target_takes_its_rules_only_and_none_when_removed(office, receiver, configure, mailbox, clock):
    configure(webhook_hosts=(receiver.host,))
    add_target(actor=office.admin, kind="mail", address="queue@office.example", rules=["queue_old"])
    hook = add_target(actor=office.admin, kind="webhook", address=f"http://{receiver.host}/hook")
    fail(office)
    evaluate()
    clock.advance(31)
    evaluate()
    remove_target(actor=office.admin, target_id=uuid.UUID(hook["target_id"]))
    deliver()
    assert receiver.taken == []
    assert [m for m in mailbox if "queue@office.example" in m.recipients()] == []


@pytest.mark.req("C7.4")
def test_a_host_that_left_the_allow_list_gets_nothing(office, receiver, configure, clock):
    configure(webhook_hosts=(receiver.host,))
    add_target(actor=office.admin, kind="webhook", address=f"http://{receiver.host}/hook")
    configure(webhook_hosts=())
    fail(office)
    evaluate()
    clock.advance(31)
    evaluate()
    assert deliver()["failed"] == 1
    assert receiver.taken == []
    with pytest.raises(BadInput):
        add_target(actor=office.admin, kind="webhook", address=f"http://{receiver.host}/other")


def test_a_message_is_given_up_in_the_end(office, receiver, configure, clock):
    configure(webhook_hosts=(receiver.host,))
    add_target(actor=office.admin, kind="webhook", address=f"http://{receiver.host}/hook")
    receiver.answers = [503] * 20
    fail(office)
    evaluate()
    clock.advance(31)
    evaluate()
    results = []
    for _ in range(12):
        results.append(deliver())
        clock.advance(3600)
    assert results[:10] == [{"failed": 1}] * 9 + [{"given_up": 1}]
    assert results[10:] == [{}, {}]
    with tenant_tx(office.tenant.id) as tx:
        row = tx.conn.execute("SELECT attempts, error, sent_at FROM qd_outbox WHERE topic = 'alert.opened'").fetchone()
    assert row is not None
    assert (row[0], "503" in row[1], row[2] is not None) == (10, True, True)


def test_the_subjects_are_plain_json(office):
    fail(office)
    evaluate()
    assert json.loads(json.dumps(alerts(office), default=str))[0]["subjects"][0]["kind"] == "run"
