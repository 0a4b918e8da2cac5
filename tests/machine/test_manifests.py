"""The manifest of a run: workflow, tools, policy and code as they were when the run was made (C4.8)."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from runtime.actions.limits import set_policy
from runtime.actions.manifests import executed_files
from runtime.actions.reruns import new_run, rerun_task
from runtime.models import Manifest, Run
from runtime.store.tx import tenant_tx
from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C4.8"), pytest.mark.django_db(transaction=True)]


def manifest(engine: Engine, run_id: uuid.UUID) -> tuple[uuid.UUID, dict[str, Any]]:
    with tenant_tx(engine.tenant.id):
        row = Manifest.objects.get(id=Run.objects.get(id=run_id).manifest_id)
    return row.id, json.loads(bytes(row.body))


def test_another_policy_is_another_manifest(engine):
    """Its digest is bound to new runs, older ones keep theirs; the same policy gives the same manifest."""
    flow = workflow(tool("a"))
    free = engine.submit(flow)
    set_policy(actor=engine.actor, data_regions=["eu"], scopes=None)
    bound = engine.submit(flow)
    set_policy(actor=engine.actor, data_regions=["eu", "us"], scopes=None)
    wider = engine.submit(flow)
    set_policy(actor=engine.actor, data_regions=["eu"], scopes=None)
    again = engine.submit(flow)
    set_policy(actor=engine.actor, data_regions=None, scopes=None)
    lifted = engine.submit(flow)
    ids = [manifest(engine, run_id)[0] for run_id in (free, bound, wider, again, lifted)]
    assert len(set(ids[:3])) == 3
    assert (ids[3], ids[4]) == (ids[1], ids[0])
    bodies = [manifest(engine, run_id)[1] for run_id in (free, bound, wider)]
    digests = [body.pop("policy") for body in bodies]
    assert digests[0] == {}
    assert {len(digest["bounds"]) for digest in digests[1:]} == {64}
    assert bodies[0] == bodies[1] == bodies[2], "nothing else moved"


def test_the_policy_of_one_tenant_is_not_in_anothers_manifest(engine, other_tenant):
    other = Engine(other_tenant)
    set_policy(actor=other.actor, data_regions=None, scopes=["orders.read"])
    flow = workflow(tool("a"))
    assert manifest(other, other.submit(flow))[1]["policy"].keys() == {"bounds"}
    assert manifest(engine, engine.submit(flow))[1]["policy"] == {}


@pytest.mark.parametrize("start", [new_run, rerun_task])
def test_a_new_run_of_a_task_is_bound_to_the_policy_of_its_own_time(engine, start):
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a")
    engine.finish("b", "failed")
    set_policy(actor=engine.actor, data_regions=["eu"], scopes=None)
    answer = start(actor=engine.actor, task_id=engine.run(run_id).task_id, reason="")
    assert manifest(engine, uuid.UUID(answer["run_id"]))[1]["policy"].keys() == {"bounds"}
    assert manifest(engine, run_id)[1]["policy"] == {}
    assert answer["adopts"] == [], "what was found under another policy is not taken over"


def test_the_code_that_gates_and_repairs_is_in_the_hash_too():
    root = Path(__file__).resolve().parents[2]
    names = {path.relative_to(root).as_posix() for path in executed_files()}
    wanted = {"runtime/worker/intents.py", "runtime/store/sql/worker.sql", "approvals/gate.py", "repair/law.py"}
    assert wanted <= names
    assert not [name for name in names if name.startswith("tests/")]
