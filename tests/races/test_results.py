"""Large results that several steps bring at the same time: stored once, whoever comes first (C2.3, C2.9)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from runtime.actions.artifacts import upload_artifact
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.models import Artifact, Checkpoint
from runtime.queries.runs import read_run
from runtime.store.tx import tenant_tx
from runtime.worker.complete import complete
from runtime.worker.work import Report
from tests.support.engine import Engine
from tests.support.race import held
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C2.3", "C2.9")
TWO = workflow(tool("a"), tool("b"))


def large(letter: str) -> bytes:
    return canonical_bytes({"text": letter * conf().inline_result_bytes})


def batch(engine: Engine, *contents: bytes) -> list[Report]:
    """Start a run and return its steps' reports in order, each with one of the contents."""
    run_id = engine.submit(TWO)
    claimed = sorted((one for one in engine.claim() if one.run_id == run_id), key=lambda one: one.node.id)
    return [
        Report(one, "succeeded", output=content, output_sha256=digest(content), input_sha256=digest(b"{}"))
        for one, content in zip(claimed, contents, strict=True)
    ]


def test_two_batches_with_the_same_results_in_another_order_do_not_deadlock(fresh_db, engine):
    """Both results are uploads that still expire, so that each batch has to lock both."""
    x, y = large("x"), large("y")
    ids: list[Any] = [
        upload_artifact(actor=engine.actor, body=one, media_type="application/json", sha256=digest(one))["artifact_id"]
        for one in (x, y)
    ]
    first, second = batch(engine, x, y), batch(engine, y, x)
    with held(fresh_db, "qd_artifact", ids[0]) as row:
        contenders = [row.queue(lambda one=one: complete(engine.tenant.id, one)) for one in (first, second)]
    for contender in contenders:
        contender.outcome()
    with tenant_tx(engine.tenant.id):
        assert {str(one.id) for one in Artifact.objects.filter(expires_at=None)} == {*ids}
        assert Checkpoint.objects.filter(output=None, artifact_id__in=ids).count() == 4


def test_a_result_that_is_kept_already_is_waited_for_by_nobody(fresh_db, engine):
    x, y = large("x"), large("y")
    complete(engine.tenant.id, batch(engine, x, y))
    with tenant_tx(engine.tenant.id):
        (kept,) = Artifact.objects.filter(sha256=digest(x))
    with held(fresh_db, "qd_artifact", kept.id):
        # A completion that waited would wait for this very block to end.
        complete(engine.tenant.id, batch(engine, y, x))
    with tenant_tx(engine.tenant.id):
        assert Artifact.objects.count() == 2
        assert Checkpoint.objects.filter(artifact_id=kept.id).count() == 2


def runs_of(engine: Engine, *contents: bytes) -> list[Report]:
    """Start a run for each content and return the reports that end them; the content is also the run's output."""
    document = {**workflow(tool("a")), "name": "with-output", "output": {"$": "nodes.a.output"}}
    run_ids = [engine.submit(document) for _content in contents]
    claimed = {one.run_id: one for one in engine.claim()}
    return [
        Report(claimed[run], "succeeded", output=content, output_sha256=digest(content), input_sha256=digest(b"{}"))
        for run, content in zip(run_ids, contents, strict=True)
    ]


def expiring(engine: Engine, content: bytes) -> uuid.UUID:
    """Upload a content that still expires: who stores it as a result has to lock it."""
    words = {"body": content, "media_type": "application/json", "sha256": digest(content)}
    answer: dict[str, Any] = upload_artifact(actor=engine.actor, **words)
    return uuid.UUID(str(answer["artifact_id"]))


@pytest.mark.req("C6.2")
def test_runs_that_end_with_the_same_outputs_in_another_order_do_not_deadlock(fresh_db, engine):
    """One batch ends with x and y, the other with y and x."""
    x, y = canonical_bytes({"text": "x"}), canonical_bytes({"text": "y"})
    ids = {one: expiring(engine, one) for one in (x, y)}
    first, second = runs_of(engine, x, y), runs_of(engine, y, x)
    with held(fresh_db, "qd_artifact", ids[x]) as row:
        contenders = [row.queue(lambda one=one: complete(engine.tenant.id, one)) for one in (first, second)]
    for contender in contenders:
        contender.outcome()
    for report in (*first, *second):
        run = read_run(actor=engine.actor, run_id=report.claimed.run_id)
        assert (run["status"], str(run["output_artifact_id"])) == ("completed", str(ids[report.output]))
        engine.check(report.claimed.run_id)
