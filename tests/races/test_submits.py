"""The same request from many at once is one task (C2.2); bulk requests that overlap do not block each other."""

from __future__ import annotations

import json
from functools import partial

import psycopg
import pytest

from runtime.actions.submit import Accepted, SubmitRequest, submit_bulk, submit_task
from runtime.actions.workflows import register_workflow
from runtime.kernel.errors import RequestKeyConflict, Unavailable
from runtime.models import Run, Step, Task, WorkflowVersion
from runtime.store.tx import tenant_tx
from tests.support import db as support
from tests.support.race import Held, together
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C2.1", "C2.2")


def one(engine, key, n=1):
    return SubmitRequest(workflow="w", input={"n": n}, request_key=key)


@pytest.fixture(autouse=True)
def known(engine):
    register_workflow(actor=engine.actor, raw=json.dumps(workflow(tool("a"), tool("b", "a"))))


def counts(engine):
    with tenant_tx(engine.tenant.id):
        return Task.objects.count(), Run.objects.count(), Step.objects.count()


def test_twenty_at_once_under_one_key_are_one_task(engine):
    submit = partial(submit_task, actor=engine.actor, request=one(engine, "k"))
    answers = together(*[submit] * 20)
    assert len({(answer.task_id, answer.run_id) for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert counts(engine) == (1, 1, 2)


def test_a_thousand_submits_under_one_key_from_twenty_threads_are_one_task(engine):
    def fifty():
        return [submit_task(actor=engine.actor, request=one(engine, "k")) for _ in range(50)]

    answers = [answer for some in together(*[fifty] * 20, seconds=100) for answer in some]
    assert len(answers) == 1000
    assert len({(answer.task_id, answer.run_id) for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert counts(engine) == (1, 1, 2)


@pytest.mark.req("A1.2")
def test_submits_into_one_session_wait_for_nobody(fresh_db, engine):
    """Somebody updates the session's row; who only attaches to it goes past."""
    first = submit_task(actor=engine.actor, request=SubmitRequest(workflow="w", input={}, session="desk"))
    with tenant_tx(engine.tenant.id):
        session_id = Task.objects.get(id=first.task_id).session_id
    with psycopg.connect(support.server().admin_url(fresh_db.name)) as somebody:
        somebody.execute("SELECT FROM qd_session WHERE id = %s FOR NO KEY UPDATE", [session_id])
        again = submit_task(actor=engine.actor, request=SubmitRequest(workflow="w", input={}, session="desk"))
    with tenant_tx(engine.tenant.id):
        assert Task.objects.get(id=again.task_id).session_id == session_id


@pytest.mark.req("A1.2")
def test_a_session_made_by_many_at_once_is_one(engine):
    requests = [SubmitRequest(workflow="w", input={}, session=f"s{i}") for i in range(5)]
    together(*[partial(submit_bulk, actor=engine.actor, requests=some) for some in (requests, requests[::-1]) * 5])
    with tenant_tx(engine.tenant.id):
        assert Task.objects.values("session_id").distinct().count() == 5


def test_another_payload_under_the_key_is_refused_whoever_comes_first(engine):
    def submit(n):
        try:
            return submit_task(actor=engine.actor, request=one(engine, "k", n))
        except RequestKeyConflict as conflict:
            return conflict

    answers = together(*[partial(submit, n) for n in range(10)])
    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    assert len(accepted) == 1
    assert all(answer.extra["task_id"] == str(accepted[0].task_id) for answer in answers if answer not in accepted)
    assert counts(engine) == (1, 1, 2)


def test_bulk_requests_with_the_same_keys_in_another_order(engine):
    """In whatever order they come: no deadlock, one task a key."""
    keys = [f"k{i}" for i in range(60)]
    forward = partial(submit_bulk, actor=engine.actor, requests=[one(engine, key) for key in keys])
    backward = partial(submit_bulk, actor=engine.actor, requests=[one(engine, key) for key in reversed(keys)])
    for round_number in range(5):
        answers = together(forward, backward, forward, backward)
        assert all(isinstance(answer, Accepted) for some in answers for answer in some)
        by_key = {key: answer.task_id for key, answer in zip(keys, answers[0], strict=True)}
        assert [by_key[key] for key in reversed(keys)] == [answer.task_id for answer in answers[1]]
        fresh = sum(not answer.replayed for some in answers for answer in some)
        assert fresh == (60 if round_number == 0 else 0)
    assert counts(engine) == (60, 60, 120)


def test_bulk_requests_that_meet_in_the_middle(fresh_db, engine):
    """Both wait for a key that a third one holds, each with half of the keys behind it: a circle unless sorted."""
    keys = [f"k{i:02}" for i in range(41)]
    submit_task(actor=engine.actor, request=one(engine, "pattern"))
    with psycopg.connect(support.server().admin_url(fresh_db.name)) as third:
        third.execute(
            "INSERT INTO qd_task SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid(),"
            " 'request_key', 'k20'))).* FROM qd_task t"
        )
        row = Held(third)
        forward = row.queue(partial(submit_bulk, actor=engine.actor, requests=[one(engine, k) for k in keys]))
        backward = row.queue(partial(submit_bulk, actor=engine.actor, requests=[one(engine, k) for k in keys[::-1]]))
        third.rollback()
    assert [a.task_id for a in forward.outcome()] == [a.task_id for a in backward.outcome()][::-1]
    assert counts(engine) == (42, 42, 84)


@pytest.mark.proof
def test_a_submit_that_waits_too_long_says_so(fresh_db, engine):
    submit_task(actor=engine.actor, request=one(engine, "pattern"))
    with psycopg.connect(support.server().admin_url(fresh_db.name)) as third:
        third.execute(
            "INSERT INTO qd_task SELECT (jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid(),"
            " 'request_key', 'k'))).* FROM qd_task t"
        )
        with pytest.raises(Unavailable) as refused:
            submit_task(actor=engine.actor, request=one(engine, "k"))
        assert refused.value.retryable
        third.rollback()
    assert not submit_task(actor=engine.actor, request=one(engine, "k")).replayed


def test_a_key_twice_in_one_bulk_request(engine):
    first, second, other = submit_bulk(
        actor=engine.actor, requests=[one(engine, "k"), one(engine, "k"), one(engine, "k", n=2)]
    )
    assert (first.task_id, first.run_id) == (second.task_id, second.run_id)
    assert first.run_id is not None
    assert (first.replayed, second.replayed) == (False, True)
    assert isinstance(other, RequestKeyConflict)
    assert counts(engine) == (1, 1, 2)


def test_one_workflow_registered_by_many_at_once_is_one_version(engine):
    raw = json.dumps(workflow(tool("x"), name="same"))
    answers = together(*[partial(register_workflow, actor=engine.actor, raw=raw)] * 12)
    assert len({answer["workflow_version_id"] for answer in answers}) == 1
    assert sum(answer["created"] for answer in answers) == 1
    with tenant_tx(engine.tenant.id):
        assert WorkflowVersion.objects.filter(workflow__name="same").count() == 1


def test_different_workflows_under_one_name_get_numbers_in_a_row(engine):
    raws = [json.dumps(workflow(*[tool(f"x{j}") for j in range(i + 1)], name="many")) for i in range(10)]
    answers = together(*[partial(register_workflow, actor=engine.actor, raw=raw) for raw in raws])
    assert sorted(answer["version"] for answer in answers) == list(range(1, 11))
