"""A transaction of one tenant: it is the tenant's from its first query on, and what it caches is the tenant's too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.graph.plans import plan_of
from runtime.kernel.errors import NotFound
from runtime.store.tx import tenant_tx
from tests.support.engine import Engine, sweep
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.6"), pytest.mark.django_db(transaction=True)]


@pytest.fixture
def engine(tenant, test_database) -> Iterator[Engine]:
    """The tenant's engine, driven by hand."""
    yield Engine(tenant)
    sweep(test_database, tenant.id)


@pytest.mark.parametrize("ask", ["rows", "dicts"])
def test_a_deferred_tenant_is_set_before_the_first_query(tenant, engine, ask):
    run_id = engine.submit(workflow(tool("a")))
    with tenant_tx(tenant.id, deferred=True) as tx:
        assert len(getattr(tx, ask)("read_run", (run_id,))) == 1


def test_a_plan_in_the_cache_is_no_other_tenants(tenant, other_tenant, engine):
    version = engine.run(engine.submit(workflow(tool("a")))).workflow_version_id
    with tenant_tx(tenant.id) as tx:
        assert "a" in plan_of(tx, version).nodes
    with tenant_tx(other_tenant.id) as tx, pytest.raises(NotFound):
        plan_of(tx, version)
