"""Artifacts that an input refers to: there with the very hash before the task is, and kept from then on."""

from __future__ import annotations

import hashlib
import uuid

import pytest

from runtime.actions.artifacts import upload_artifact
from runtime.actions.submit import SubmitRequest, submit_bulk, submit_task
from runtime.kernel.errors import BadInput
from runtime.models import Artifact, Task
from runtime.store.tx import tenant_tx
from runtime.worker.maintenance.storage import purge_artifacts
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C2.3"), pytest.mark.django_db(transaction=True)]
WEEK = 7 * 86400


@pytest.fixture
def engine(fresh_db, tenant) -> Engine:
    """An engine alone in its database, since the duty looks at every tenant."""
    engine = Engine(tenant)
    engine.submit(workflow(tool("a")))
    return engine


def upload(engine, text=b"a long text"):
    answer = upload_artifact(
        actor=engine.actor, body=text, media_type="text/plain", sha256=hashlib.sha256(text).digest()
    )
    return {name: answer[name] for name in ("artifact_id", "sha256")}


def submit(engine, value):
    return submit_task(actor=engine.actor, request=SubmitRequest(workflow="w", input=value))


def content(engine, reference):
    with tenant_tx(engine.tenant.id):
        row = Artifact.objects.get(id=reference["artifact_id"])
        return None if row.content is None else bytes(row.content)


def tasks(engine):
    with tenant_tx(engine.tenant.id):
        return Task.objects.count()


def test_what_a_task_refers_to_is_kept_and_the_rest_expires(engine, clock):
    kept, forgotten = upload(engine), upload(engine, b"nobody wants it")
    submit(engine, {"documents": [{"deep": kept}]})
    assert purge_artifacts() == 0
    clock.advance(WEEK + 60)
    assert purge_artifacts() == 1
    assert (content(engine, kept), content(engine, forgotten)) == (b"a long text", None)
    assert purge_artifacts() == 0


def test_expired_content_can_be_uploaded_again(engine, clock):
    reference = upload(engine)
    clock.advance(WEEK + 60)
    purge_artifacts()
    with pytest.raises(BadInput):
        submit(engine, {"text": reference})
    assert upload(engine) == reference
    assert purge_artifacts() == 0
    submit(engine, {"text": reference})
    clock.advance(WEEK + 60)
    assert purge_artifacts() == 0
    assert content(engine, reference) == b"a long text"


@pytest.mark.parametrize(
    "wrong",
    [
        {"artifact_id": str(uuid.UUID(int=7))},
        {"artifact_id": "none"},
        {"artifact_id": 7},
        {"sha256": "00" * 32},
        {"sha256": "zz"},
        {"sha256": None},
    ],
    ids=str,
)
def test_a_wrong_reference_is_refused_with_its_place_and_nothing_is_written(engine, wrong):
    reference = {**upload(engine), **wrong}
    before = tasks(engine)
    with pytest.raises(BadInput) as refused:
        submit(engine, {"a/b": [1, reference]})
    assert refused.value.where == "/input/a~1b/1"
    assert tasks(engine) == before


def test_another_tenants_artifact_is_not_there(engine, other_tenant):
    theirs = upload(Engine(other_tenant))
    with pytest.raises(BadInput):
        submit(engine, {"text": theirs})


def test_a_wrong_reference_is_its_items_problem(engine):
    good = upload(engine)
    requests = [SubmitRequest(workflow="w", input={"text": one}) for one in (good, {**good, "sha256": "00" * 32}, good)]
    first, refused, third = submit_bulk(actor=engine.actor, requests=requests)
    assert isinstance(refused, BadInput)
    assert first.task_id != third.task_id
