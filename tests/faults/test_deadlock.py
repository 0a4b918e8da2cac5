"""A completion that the database chose to end a deadlock: nothing of it is left, and it is written once (C2.9)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from runtime.actions.artifacts import upload_artifact
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.models import Artifact
from runtime.queries.runs import read_run
from runtime.store.tx import tenant_tx
from runtime.worker.complete import complete
from runtime.worker.work import Report
from tests.support import db as support
from tests.support import invariants
from tests.support.engine import Engine
from tests.support.race import held
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.faults, pytest.mark.req("C2.9", "C6.2")]


@pytest.fixture
def engine(fresh_db, tenant) -> Iterator[Engine]:
    """A tenant's engine under the test's hand."""
    engine = Engine(tenant)
    yield engine
    invariants.check(tenant.id, at_rest=False)


@pytest.mark.slow
def test_the_end_of_a_run_is_written_once_the_next_time(fresh_db, engine):
    """Somebody holds the artifact of the run's output and wants the run; the completion, which holds that, gives up."""
    content = canonical_bytes({"text": "x"})
    words = {"body": content, "media_type": "application/json", "sha256": digest(content)}
    kept = uuid.UUID(upload_artifact(actor=engine.actor, **words)["artifact_id"])
    with support.admin() as admin:
        # The completion looks for a circle once, so long after it began to wait: by then it has to be closed, however
        # long a loaded machine stands still between the two statements below. The test waits as long.
        admin.execute(f"ALTER DATABASE {fresh_db.name} SET deadlock_timeout = '15s'")
    run_id = engine.submit({**workflow(tool("a")), "output": {"$": "nodes.a.output"}})
    [claimed] = engine.claim()
    sha256 = digest(content)
    report = Report(claimed, "succeeded", output=content, output_sha256=sha256, input_sha256=digest(b"{}"))
    with held(fresh_db, "qd_artifact", kept) as row:
        row.connection.execute("SET LOCAL deadlock_timeout = '120s'")
        contender = row.queue(lambda: complete(engine.tenant.id, [report]))
        row.connection.execute("SELECT FROM qd_run WHERE id = %s FOR UPDATE", [run_id])
        assert engine.statuses(run_id) == {"a": "running"}, "nothing of the first try is left"
    contender.outcome()
    run = read_run(actor=engine.actor, run_id=run_id)
    assert (run["status"], run["output"]) == ("completed", {"text": "x"})
    types = engine.types(run_id)
    assert (types.count("RUN_COMPLETED"), types.count("STEP_SUCCEEDED")) == (1, 1)
    with tenant_tx(engine.tenant.id):
        assert [(one.id, one.expires_at) for one in Artifact.objects.all()] == [(kept, None)]
    engine.check(run_id)
