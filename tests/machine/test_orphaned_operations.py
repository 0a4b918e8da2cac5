"""A sent operation whose step somebody ended and whose worker is gone still finds an owner (invariant 7)."""

from __future__ import annotations

import psycopg
import pytest

from repair.duties import close_settled, escalate_overdue
from runtime.actions.steps import kill_step
from runtime.models import Operation, Run
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance.lost import doubt_orphaned_operations
from tests.support.engine import Engine
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("B8.2", "C2.9"), pytest.mark.django_db(transaction=True)]


def _facts(engine: Engine, run_id: object) -> tuple[str, bool, str]:
    with tenant_tx(engine.tenant.id):
        operation = Operation.objects.get(run_id=run_id)
        run = Run.objects.get(id=run_id)
        return operation.status, operation.next_query_at is not None or run.attention is not None, run.status


@pytest.mark.req("A10.1")
@pytest.mark.parametrize("duty", [doubt_orphaned_operations, escalate_overdue, close_settled])
def test_the_web_may_not_ask_what_only_duties_ask_about_every_tenant(db, as_role, duty):
    """A stranger's statement that gets through to the web's role must not list the keys and runs of other tenants."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        duty()
    with as_role("worker"):
        assert duty() >= 0


@pytest.mark.parametrize("recovery", ["human", "query"])
def test_it_becomes_unknown_once_its_workers_session_is_over(engine, as_role, recovery):
    run_id = engine.submit(workflow(tool("a"), tool("b")))
    [claimed] = [c for c in engine.claim() if c.node.id == "a"]
    send(engine, claimed, f"orphan:{run_id}", recovery=recovery)
    engine.act(kill_step, run_id, "a")
    with as_role("worker"):
        doubt_orphaned_operations()
    # Its worker lives: the call may still report, so nothing is decided for it.
    assert _facts(engine, run_id)[0] == "sent"
    with plain_tx() as tx:
        tx.send("end_sessions", ("process_died", [engine.session_id]))
    with as_role("worker"):
        doubt_orphaned_operations()
    status, owned, run_status = _facts(engine, run_id)
    assert (status, owned) == ("unknown", True)
    assert run_status != "completed"
    engine.check(run_id)
