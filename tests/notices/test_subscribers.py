"""Subscribers get every event of every tenant, in order, behind their own cursors; one that fails stops no other."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connections

from runtime.actions.submit import SubmitRequest, submit_task
from runtime.kernel import actor, seams
from runtime.kernel.ids import uuid7
from runtime.kernel.seams import Subscriber
from runtime.models import Event, Outbox, SubscriberCursor
from runtime.queries.alerts import list_alerts
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker import scheduler
from runtime.worker.maintenance.alerts import evaluate
from runtime.worker.maintenance.subscribers import Reader
from tests.support.db import switched
from tests.support.engine import Engine
from tests.support.factories import make_tenant
from tests.support.patience import patient
from tests.support.specs import tool, workflow

pytestmark = [
    pytest.mark.req("B5.3", "B2.2", "A6.3"),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh_db"),
]


@pytest.fixture
def engine(tenant) -> Engine:
    return Engine(tenant)


def ledger(engine: Engine) -> list[str]:
    """Return the ids of a tenant's events in the order of the stream."""
    with tenant_tx(engine.tenant.id):
        rows = Event.objects.order_by("xact", "run_id", "seq").values_list("run_id", "seq")
        return [f"{run_id}:{seq}" for run_id, seq in rows]


def drain(*readers: Reader, until: Callable[[], bool]) -> None:
    """Let readers have their turns, as the scheduler does: transactions elsewhere on the server hold the stream up."""
    end = time.monotonic() + patient(20)
    while not until():
        assert time.monotonic() < end, "not everything was handed over"
        with switched("default", role="worker"):
            for reader in readers:
                reader.run_once()


class Heard:
    """A subscriber that remembers what it got, and fails when told to."""

    def __init__(self, name: str = "heard", types: list[str] | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.fails: Callable[[dict[str, Any]], bool] = lambda event: False
        self.subscriber = Subscriber(name, self._handle, types)
        self.reader = Reader(self.subscriber)

    def _handle(self, event: dict[str, Any]) -> None:
        if self.fails(event):
            raise LookupError("it cannot be handled")
        self.events.append(event)

    def ids(self, engine: Engine | None = None) -> list[str]:
        return [e["event_id"] for e in self.events if engine is None or e["tenant_id"] == engine.tenant.id]


def test_every_event_comes_once_and_in_order(engine):
    other = Engine(make_tenant())
    heard = Heard()
    run = engine.submit(workflow(tool("a"), tool("b", "a")))
    other.submit(workflow(tool("a")))
    drain(heard.reader, until=lambda: len(heard.events) == len(ledger(engine)) + len(ledger(other)))
    engine.finish("a")
    engine.finish("b")
    drain(heard.reader, until=lambda: len(heard.ids(engine)) == len(ledger(engine)))
    assert heard.ids(engine) == ledger(engine)
    assert heard.ids(other) == ledger(other)
    told = [e for e in heard.events if e["run_id"] == run]
    assert [e["seq"] for e in told] == list(range(1, len(told) + 1))
    assert [e["type"] for e in told] == engine.types(run)
    assert isinstance(next(e["payload"] for e in told if e["payload"] is not None), dict)
    before = len(heard.events)
    for reader in (heard.reader, Reader(heard.subscriber)):  # another scheduler goes on from the cursor
        assert reader.run_once() == 0
    assert len(heard.events) == before


def test_only_the_types_that_are_asked_for(engine):
    heard = Heard(types=["RUN_COMPLETED"])
    run = engine.submit(workflow(tool("a")))
    engine.finish("a")
    drain(heard.reader, until=lambda: bool(heard.events))
    assert [(e["type"], e["run_id"]) for e in heard.events] == [("RUN_COMPLETED", run)]


CRASHING = """
import os, sys
import django
django.setup()
from runtime.kernel.ids import uuid7
from runtime.kernel.seams import Subscriber
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.subscribers import Reader

def handle(event):
    with tenant_tx(event["tenant_id"]) as tx:
        told = '{"id": "%s"}' % event["event_id"]
        tx.send("outbox_insert", (uuid7(), tx.tenant_id, uuid7(), "heard", told, tx.now()))
    with open(sys.argv[1], "a") as file:
        file.write(event["event_id"] + "\\n")
        file.flush()
        os.fsync(file.fileno())
    if event["seq"] == 3 and sys.argv[2] == "crash":
        os._exit(9)

print(Reader(Subscriber("crashing", handle)).run_once())
"""


def test_after_a_crash_between_handling_and_the_cursor_nothing_is_missing(engine, fresh_db, tmp_path):
    """What the handler writes in the database is written once; outside, the event id tells what was done already."""
    engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a")
    wanted, log = ledger(engine), tmp_path / "handled"

    def read(how: str) -> int:
        command = [sys.executable, "-c", CRASHING, str(log), how]
        done = subprocess.run(command, env=fresh_db.environ("worker"), capture_output=True, timeout=patient(60))
        assert done.returncode in (0, 9), done.stderr
        return done.returncode

    def handled() -> list[str]:
        return log.read_text().split() if log.exists() else []

    end = time.monotonic() + patient(60)
    while read("crash") != 9:
        assert time.monotonic() < end
    assert handled() == wanted[:3]
    while set(handled()) != set(wanted):
        assert time.monotonic() < end
        read("go on")
    assert handled() == [*wanted[:3], *wanted[2:]], "only what it was at comes again, under the same id"
    with tenant_tx(engine.tenant.id):
        written = [row.payload["id"] for row in Outbox.objects.filter(topic="heard").order_by("id")]
    assert written == wanted


def test_one_that_fails_stops_neither_other_subscribers_nor_its_other_tenants_and_is_told_of(
    engine, clock, monkeypatch
):
    other, good, bad = Engine(make_tenant()), Heard("good"), Heard("bad")
    for one in (good, bad):
        monkeypatch.setitem(seams._subscribers, one.subscriber.name, one.subscriber)
    run = engine.submit(workflow(tool("a")))
    other.submit(workflow(tool("a")))
    bad.fails = lambda event: event["tenant_id"] == engine.tenant.id and event["seq"] == 2
    both = len(ledger(engine)) + len(ledger(other))
    drain(
        good.reader,
        bad.reader,
        until=lambda: len(good.events) == both and len(bad.ids(other)) == len(ledger(other)) and bool(bad.ids(engine)),
    )
    assert bad.ids(engine) == ledger(engine)[:1]
    evaluate()
    assert list_alerts(actor=engine.actor, rule="subscriber_stuck").items == [], "it has only just begun to fail"
    with switched("default", role="worker"):
        Reader(bad.subscriber).run_once()
    clock.advance(61)
    evaluate()
    [alert] = list_alerts(actor=engine.actor, rule="subscriber_stuck").items
    assert (alert["title"], alert["severity"]) == ("Events that are not handled: bad (1)", "warning")
    assert (alert["subjects"][0]["run_id"], "event 2" in alert["subjects"][0]["label"]) == (str(run), True)
    assert list_alerts(actor=other.actor, rule="subscriber_stuck").items == []
    bad.fails = lambda event: False
    healed = Reader(bad.subscriber)
    drain(healed, until=lambda: len(bad.ids(engine)) == len(ledger(engine)))
    assert bad.ids(engine) == ledger(engine), "it goes on with the event that failed"
    evaluate()
    assert list_alerts(actor=engine.actor, state="open", rule="subscriber_stuck").items == []


def test_what_fails_rests_before_it_is_tried_again(engine):
    heard, tries = Heard(), []
    heard.fails = lambda event: tries.append(event["event_id"]) is None
    engine.submit(workflow(tool("a")))
    drain(heard.reader, until=lambda: bool(tries))
    for _ in range(5):
        heard.reader.run_once()
    assert tries == ledger(engine)[:1]


def test_a_late_commit_is_not_passed_over(engine):
    """Who began earlier and commits later is read before what came meanwhile."""
    engine.submit(workflow(tool("a")))
    heard, began, let_go, own = Heard(), threading.Event(), threading.Event(), actor.engine(engine.tenant.id)

    def late() -> None:
        try:
            with tenant_tx(engine.tenant.id):
                # The engine's own acts are not audited: nobody waits for the audit's head.
                submit_task(actor=own, request=SubmitRequest(workflow="w", input={}, name="late"))
                began.set()
                let_go.wait(patient(20))
        finally:
            connections.close_all()

    holder = threading.Thread(target=late)
    drain(heard.reader, until=lambda: len(heard.events) == len(ledger(engine)))
    before = heard.ids()
    holder.start()
    assert began.wait(patient(10))
    submit_task(actor=engine.actor, request=SubmitRequest(workflow="w", input={}, name="soon"))
    for _ in range(3):
        with switched("default", role="worker"):
            heard.reader.run_once()
    assert heard.ids() == before, "an older transaction is still open"
    let_go.set()
    holder.join(patient(20))
    drain(heard.reader, until=lambda: len(heard.events) == len(ledger(engine)))
    assert heard.ids() == ledger(engine)


def test_two_schedulers_hand_nothing_over_twice(engine):
    for _ in range(10):
        engine.submit(workflow(tool("a"), tool("b", "a")))
    heard, wanted = Heard(), set(ledger(engine))
    end = time.monotonic() + patient(20)

    def read() -> None:
        reader = Reader(heard.subscriber)
        try:
            while len(heard.events) < len(wanted) and time.monotonic() < end:
                reader.run_once()
        finally:
            connections.close_all()

    with switched("default", role="worker"):
        threads = [threading.Thread(target=read) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert sorted(heard.ids()) == sorted(wanted)
    assert heard.ids() == ledger(engine)


def test_a_cursor_of_another_server_begins_again(engine):
    """After a restore transactions are counted anew: nothing new may wait for the old numbers."""
    heard = Heard()
    engine.submit(workflow(tool("a")))
    with plain_tx() as tx:
        SubscriberCursor.objects.create(
            name=f"heard/{engine.tenant.id}", xact=2**40, run_id=uuid7(), seq=7, moved_at=tx.now()
        )
    drain(heard.reader, until=lambda: len(heard.events) == len(ledger(engine)))
    assert heard.ids() == ledger(engine)


def test_the_scheduler_runs_each_apart(engine, monkeypatch):
    heard = Heard("apart")
    monkeypatch.setitem(seams._subscribers, "apart", heard.subscriber)
    engine.submit(workflow(tool("a")))
    [duty] = [one for one in scheduler.duties() if one.name.startswith("subscriber ")]
    assert (duty.name, duty.apart) == ("subscriber apart", True)
    stop = threading.Event()
    with switched("default", role="worker"):
        thread = threading.Thread(target=scheduler.run, args=(stop,), kwargs={"only": [duty]})
        thread.start()
        end = time.monotonic() + patient(20)
        while len(heard.events) < len(ledger(engine)) and time.monotonic() < end:
            time.sleep(0.05)
        stop.set()
        thread.join(10)
    assert heard.ids() == ledger(engine)


@pytest.mark.parametrize("name", ["", "x" * 61])
def test_a_name_fits_into_the_cursor(name):
    with pytest.raises(ValueError, match="1 to 60 characters"):
        seams.subscribe(name, lambda event: None)
