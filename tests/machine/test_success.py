"""Completed means machine-checked: a workflow's success condition is evaluated over inputs and results (B1.4)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runtime.access.roles import verbs_of_role
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.conf import conf
from runtime.models import Artifact, Checkpoint, Run
from runtime.queries.runs import read_run
from runtime.store.tx import tenant_tx
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("B1.4", "A2.1"), pytest.mark.django_db(transaction=True)]


def _run(engine: Engine, run_id: object) -> Run:
    with tenant_tx(engine.tenant.id):
        return Run.objects.get(id=run_id)


@pytest.mark.parametrize(("total", "status"), [(40, "completed"), (41, "failed")])
def test_the_condition_reads_the_last_result_and_the_input(engine, total, status):
    document = {
        **workflow(tool("a"), tool("b", after=["a"])),
        "success": "nodes.b.output.total == input.total && nodes.a.status == 'succeeded'",
    }
    run_id = engine.submit(document, {"total": 40})
    engine.finish("a", value={"total": 1})
    engine.finish("b", value={"total": total})
    run = _run(engine, run_id)
    assert run.status == status
    if status == "failed":
        assert "success condition does not hold" in run.reason
    assert engine.check(run_id) is None


def test_a_condition_that_does_not_evaluate_fails_the_run_and_says_so(engine):
    document = {**workflow(tool("a")), "success": "nodes.a.output.missing > 3"}
    run_id = engine.submit(document, {})
    engine.finish("a", value={})
    run = _run(engine, run_id)
    assert run.status == "failed"
    assert "does not evaluate" in run.reason


def _read(engine: Engine, run_id: uuid.UUID, role: str) -> dict[str, Any]:
    verbs = verbs_of_role("admin") if role == "admin" else verbs_of_role("admin") - {"payload.read"}
    actor = Actor(kind="service", name=role, tenant_id=engine.tenant.id, verbs=verbs)
    return read_run(actor=actor, run_id=run_id)


@pytest.mark.req("C6.2")
def test_the_output_is_rendered_when_the_run_completes_and_shown_to_whoever_may_read_it(engine):
    document = {**workflow(tool("a")), "output": {"n": {"$": "nodes.a.output.n"}, "of": {"$": "input.name"}}}
    run_id = engine.submit(document, {"name": "x"})
    assert "output" not in _read(engine, run_id, "admin")
    engine.finish("a", value={"n": 7})
    run = _read(engine, run_id, "admin")
    assert run["output"] == {"n": 7, "of": "x"}
    assert run["output_sha256"] == digest(b'{"n":7,"of":"x"}').hex()
    told = engine.events(run_id)[-1]
    assert (told.type, bytes(told.output_sha256).hex()) == ("RUN_COMPLETED", run["output_sha256"])
    assert "output" not in _read(engine, run_id, "other")
    assert _read(engine, run_id, "other")["output_sha256"] == run["output_sha256"]
    engine.check(run_id)


@pytest.mark.req("C6.2")
def test_an_output_that_does_not_evaluate_is_told_and_takes_nothing_from_the_run(engine):
    run_id = engine.submit({**workflow(tool("a")), "output": {"$": "nodes.a.output.missing"}})
    engine.finish("a", value={})
    run = _read(engine, run_id, "admin")
    assert (run["status"], "output" in run) == ("completed", False)
    assert "missing" in run["output_error"]


@pytest.fixture
def limits(settings: Any) -> Iterator[Callable[..., None]]:
    """Set fields of the configuration for this test."""

    def put(**fields: Any) -> None:
        settings.QUARTERDECK = {**settings.QUARTERDECK, **fields}
        conf.cache_clear()

    yield put
    settings.QUARTERDECK = {}
    conf.cache_clear()


@pytest.mark.req("C6.2", "C2.3")
def test_a_large_output_is_an_artifact_as_that_of_a_step_is(engine, limits):
    """The run tells where it is; its bytes are those of the hash. What is small stays in the row it was in."""
    limits(inline_result_bytes=20)
    document = {**workflow(tool("a"), tool("b", "a")), "output": {"$": "nodes.a.output"}}
    run_id = engine.submit(document)
    engine.finish("a", value={"text": "x" * 20})
    engine.finish("b", value={"n": 1})
    run = _read(engine, run_id, "admin")
    content = canonical_bytes({"text": "x" * 20})
    assert (run["status"], run["output_sha256"], "output" in run) == ("completed", digest(content).hex(), False)
    with tenant_tx(engine.tenant.id):
        kept = Artifact.objects.get(id=run["output_artifact_id"])
        of_steps = {one.node: (one.artifact_id, one.output) for one in Checkpoint.objects.filter(run_id=run_id)}
    assert (bytes(kept.content), kept.expires_at) == (content, None)
    assert of_steps["a"] == (kept.id, None), "the step's is the same content, stored once"
    assert (of_steps["b"][0], bytes(of_steps["b"][1])) == (None, b'{"n":1}')
    engine.check(run_id)


@pytest.mark.req("C6.2", "C2.3")
@pytest.mark.parametrize("times", [1, 1000])
def test_an_output_beyond_the_limit_is_told_and_takes_nothing_from_the_run(engine, limits, times):
    """However often a template repeats a large part, the limit is told before so much is written."""
    limits(max_result_bytes=1000)
    document = {**workflow(tool("a")), "output": [{"$": "nodes.a.output"}] * times}
    run_id = engine.submit(document)
    engine.finish("a", value={"text": "\u20ac" * 400})
    run = _read(engine, run_id, "admin")
    assert (run["status"], engine.statuses(run_id)) == ("completed", {"a": "succeeded"})
    assert "the limit" in run["output_error"]
    assert "1000" in run["output_error"]
    assert not {"output", "output_sha256", "output_artifact_id"} & run.keys()
    with tenant_tx(engine.tenant.id):
        assert not Artifact.objects.exists()
    engine.check(run_id)
