"""Submitting: times that cannot be kept are refused one by one, and whoever is in the way is waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.db import connections

from runtime.actions import base
from runtime.actions.submit import Accepted, SubmitRequest, submit_bulk
from runtime.kernel.errors import BadInput, NotFound, Unavailable
from runtime.kernel.ids import uuid7
from runtime.store.tx import tenant_tx
from tests.support.engine import Engine, sweep
from tests.support.specs import tool, workflow
from tests.support.statements import captured

pytestmark = [pytest.mark.req("C2.1", "C2.2"), pytest.mark.django_db(transaction=True)]
FAR = datetime(9998, 12, 31, tzinfo=UTC)


@pytest.fixture
def engine(tenant, test_database) -> Iterator[Engine]:
    """The tenant's engine, driven by hand."""
    yield Engine(tenant)
    sweep(test_database, tenant.id)


@pytest.fixture
def flow(engine) -> str:
    """A registered workflow's name."""
    document = workflow(tool("a"))
    engine.submit(document)
    return document["name"]


def test_a_time_limit_beyond_all_calendars_is_its_items_problem(engine, flow):
    requests = [
        SubmitRequest(workflow=flow, input={}, scheduled_at=FAR, timeout=315_360_000),
        SubmitRequest(workflow=flow, input={}),
    ]
    refused, accepted = submit_bulk(actor=engine.actor, requests=requests)
    assert isinstance(refused, BadInput)
    assert refused.where == "/timeout"
    assert engine.run(accepted.run_id).status == "queued"


@pytest.mark.req("A4.1")
def test_what_many_items_name_alike_is_read_once(engine, flow):
    parent = engine.submit(workflow(tool("a")))
    child = SubmitRequest(workflow=flow, input={}, parent=parent)
    orphan = SubmitRequest(workflow=flow, input={}, parent=uuid7())
    judged = SubmitRequest(workflow=flow, input={}, success={"verifier": "nobody.there@1"})
    with captured() as asked:
        answers = submit_bulk(actor=engine.actor, requests=[child, orphan, judged] * 4)
    assert [isinstance(one, Accepted) for one in answers] == [True, False, False] * 4
    assert {type(one) for one in answers[1::3]} == {NotFound}
    assert {one.where for one in answers[2::3]} == {"/success/verifier"}
    named = [values for _statement, values in asked if values in ((parent,), (orphan.parent,), ("nobody.there", 1))]
    assert len(named) == 3


class Holder(threading.Thread):
    """Another submitter whose transaction holds a session's row until it is told to commit."""

    def __init__(self, tenant_id) -> None:
        super().__init__()
        self.tenant_id = tenant_id
        self.holds, self.let_go = threading.Event(), threading.Event()

    def run(self) -> None:
        with tenant_tx(self.tenant_id) as tx:
            tx.send("insert_sessions", (self.tenant_id, "service:other", [uuid7()], ["desk"]))
            self.holds.set()
            self.let_go.wait(30)
        connections.close_all()


@pytest.mark.parametrize("patient", [True, False])
def test_who_holds_the_same_session_is_waited_for(engine, flow, monkeypatch, patient):
    monkeypatch.setattr(base, "LOCK_TIMEOUT_MS", 500 if patient else 50)
    holder = Holder(engine.tenant.id)
    holder.start()
    assert holder.holds.wait(10)
    requests = [SubmitRequest(workflow=flow, input={}, session="desk", request_key="once")]
    if patient:
        threading.Timer(0.6, holder.let_go.set).start()
        [accepted] = submit_bulk(actor=engine.actor, requests=requests)
        assert engine.run(accepted.run_id).status == "queued"
    else:
        with pytest.raises(Unavailable):
            submit_bulk(actor=engine.actor, requests=requests)
        holder.let_go.set()
    holder.join(10)
