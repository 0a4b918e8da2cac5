"""Ends of runs as signed webhooks and chat lines, where a hook names them: written with the end, sent afterwards."""

from __future__ import annotations

import json
import uuid

import pytest
from standardwebhooks import Webhook

from approvals import ends, run_hooks
from approvals.actions.hooks import add_hook, remove_hook
from approvals.law import EVENTS, RUN_EVENTS
from runtime.actions.runs import cancel_run
from runtime.kernel.errors import BadInput
from runtime.store.tx import Tx, tenant_tx
from runtime.worker.maintenance.outbox import deliver
from tests.support.factories import make_tenant
from tests.support.office import Office

pytestmark = [pytest.mark.req("A4.5", "C6.3"), pytest.mark.django_db(transaction=True)]

ONE = {
    "format": "quarterdeck/1",
    "name": "one",
    "nodes": [{"id": "a", "kind": "tool", "tool": "core.echo@1", "input": {"secret": {"$": "input.secret"}}}],
    "output": {"$": "nodes.a.output"},
}
PAY = {
    "format": "quarterdeck/1",
    "name": "pay",
    "nodes": [{"id": "pay", "kind": "tool", "tool": "office.pay@1", "input": {}, "business_key": "'pay:' + run.id"}],
}


@pytest.fixture
def hook(office, receiver, configure):
    """A signed hook for every end of a run, to a receiver of our own."""
    configure(webhook_hosts=(receiver.host,))
    return add_hook(actor=office.admin, url=f"http://{receiver.host}/runs", events=list(RUN_EVENTS))


def posted(receiver):
    """Send what waits; return the new messages' (headers, body)."""
    del receiver.taken[:]
    while any(deliver().get(what) for what in ("sent", "dropped")):
        pass
    return list(receiver.taken)


def told(receiver, hook):
    """Send what waits; return the messages, each verified."""
    return [Webhook(hook["secret"]).verify(body, headers) for headers, body in posted(receiver)]


def submit(office, document=ONE) -> uuid.UUID:
    return office.submit(document, {"secret": "Ada Secret"}, name="order A-7")


def test_a_run_that_completes_is_told_signed_and_without_its_contents(hook, office, receiver):
    run_id = submit(office)
    assert posted(receiver) == [], "nothing is told before the end"
    office.work()
    ((headers, body),) = posted(receiver)
    one = Webhook(hook["secret"]).verify(body, headers)
    row = office.run(run_id)
    assert one["type"] == "run.completed"
    assert (one["data"]["run_id"], one["data"]["task_id"]) == (str(run_id), str(row.task_id))
    assert (one["data"]["status"], one["data"]["version"], one["data"]["seq"]) == ("completed", row.version, row.seq)
    assert (one["data"]["workflow"], one["data"]["name"]) == ("one", "order A-7")
    assert len(one["data"]["output_sha256"]) == 64
    assert f"/runs/{run_id}/" in one["data"]["link"]
    assert b"Secret" not in body
    assert posted(receiver) == [], "told once"


def test_every_other_end_is_told(hook, office, receiver):
    failed = submit(office)
    office.finish("a", "failed")
    cancelled = submit(office)
    cancel_run(actor=office.admin, run_id=cancelled, reason="ordered twice")
    unsure = submit(office, PAY)
    office.lose(office.claim()[0])
    assert office.run(unsure).status == "needs_attention"
    found = {one["data"]["run_id"]: (one["type"], one["data"]["output_sha256"]) for one in told(receiver, hook)}
    assert found == {
        str(failed): ("run.failed", None),
        str(cancelled): ("run.cancelled", None),
        str(unsure): ("run.needs_attention", None),
    }


def test_it_is_written_in_the_transaction_of_the_end(hook, office):
    run_id = submit(office)
    office.work()
    with tenant_tx(office.tenant.id) as tx:
        (same,) = tx.conn.execute(
            "SELECT o.xmin = r.xmin FROM qd_outbox o, qd_run r WHERE o.topic = 'run.event' AND r.id = %s", [run_id]
        ).fetchone()
    assert same


def test_a_hook_hears_of_what_it_names(office, receiver, configure):
    configure(webhook_hosts=(receiver.host,))
    url = f"http://{receiver.host}"
    approvals = add_hook(actor=office.admin, url=f"{url}/approvals")
    failures = add_hook(actor=office.admin, url=f"{url}/failures", events=["run.failed"])
    submit(office)
    office.work()
    submit(office)
    office.finish("a", "failed")
    assert [one["type"] for one in told(receiver, failures)] == ["run.failed"]
    office.ask()
    assert [one["type"] for one in told(receiver, approvals)] == ["approval.asked"], (
        "of runs only where it is asked for"
    )
    for wrong in (["run.begun"], ["run.failed", "run"], ["failed"]):
        with pytest.raises(BadInput) as refused:
            add_hook(actor=office.admin, url=f"{url}/none", events=wrong)
        assert "run.failed" in refused.value.remediation
    assert not set(EVENTS) & set(RUN_EVENTS)


def test_a_receiver_that_fails_is_asked_again_and_fails_no_run(hook, office, receiver, clock):
    receiver.answers = [500]
    run_id = submit(office)
    office.work()
    ((first, body),) = posted(receiver)
    assert office.run(run_id).status == "completed"
    clock.advance(60)
    ((again, same),) = posted(receiver)
    assert (again["webhook-id"], same) == (first["webhook-id"], body)
    assert posted(receiver) == []


def test_a_chat_gets_a_line_that_mentions_nobody(office, receiver, configure):
    configure(webhook_hosts=(receiver.host,))
    hook = add_hook(actor=office.admin, url=f"http://{receiver.host}/chat", format="chat", events=list(RUN_EVENTS))
    done = office.submit(ONE, {"secret": "Ada Secret"}, name="<!channel> @here")
    office.work()
    unsure = submit(office, PAY)
    office.lose(office.claim()[0])
    lines = [json.loads(body)["text"].splitlines() for _headers, body in posted(receiver)]
    assert {link.rsplit("/", 2)[1]: line.split(":")[0] for line, link in lines} == {
        str(done): "Run completed",
        str(unsure): "Run needs a person",
    }
    assert not any(word in line for line, _link in lines for word in ("<!channel>", "@here", "Secret"))
    late = {"hook_id": hook["hook_id"], "event_id": str(uuid.uuid4()), "run_id": str(done), "then": {}}
    with tenant_tx(office.tenant.id) as tx:
        healed = run_hooks.told(tx, {**late, "event": "run.needs_attention", "at": tx.now().isoformat()})
    assert healed is None, "nobody in a chat hears of what needs nobody any more"


def test_nobody_else_hears_of_it(hook, office, receiver):
    other = Office(make_tenant())
    submit(other)
    other.work()
    assert posted(receiver) == []
    submit(office)
    office.work()
    remove_hook(actor=office.admin, hook_id=uuid.UUID(hook["hook_id"]))
    assert posted(receiver) == [], "what waits is not sent to a hook that is gone"


def test_without_such_a_hook_nothing_is_written_and_little_is_asked(office, monkeypatch):
    ends.forget(office.tenant.id)
    asked: list[str] = []
    send = Tx.send

    def counted(self, name, params=None):
        asked.append(name)
        return send(self, name, params)

    monkeypatch.setattr(Tx, "send", counted)
    for _ in range(5):
        submit(office)
        office.work()
    assert asked.count("run_hooks_wanted") <= 3, "once a second at most"
    assert "run_hooks_told" not in asked
