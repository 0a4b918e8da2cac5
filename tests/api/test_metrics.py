"""What `/metrics` tells of the queue of each pool: its depth and the age of its oldest step, and no tenant (C7.8)."""

from __future__ import annotations

import re
import uuid

import pytest
from django.test import Client

from runtime.store.tx import plain_tx
from tests.support.clock import Clock
from tests.support.engine import Engine
from tests.support.factories import make_tenant
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C7.8"), pytest.mark.django_db(transaction=True)]


def told(client: Client) -> dict[str, tuple[float, float]]:
    """Return pool → (depth, seconds of its oldest step) as a monitoring system reads them."""
    text = client.get("/metrics").content.decode()
    found = {
        name: dict(re.findall(rf'^quarterdeck_pool_queue_{name}{{pool="([^"]*)"}} (\S+)$', text, re.M))
        for name in ("depth", "oldest_seconds")
    }
    return {pool: (float(depth), float(found["oldest_seconds"][pool])) for pool, depth in found["depth"].items()}


def serve(engine: Engine, pools: str) -> None:
    with plain_tx() as tx:
        tx.send("insert_session", (uuid.uuid4(), "test", 1, "", pools, 8, "test", 1e9))


def test_each_pool_has_its_depth_and_oldest_age(fresh_db, tenant, client: Client, clock: Clock):
    engine, other = Engine(tenant), Engine(make_tenant())
    serve(engine, '["default", "gpu"]')
    assert told(client) == {"default": (0.0, 0.0), "gpu": (0.0, 0.0)}
    engine.submit(workflow(tool("a"), tool("b", pool="gpu"), tool("c", pool="nobodys-own")))
    clock.advance(100)
    other.submit(workflow(tool("a"), tool("b", "a"), tool("c", pool="theirs")))
    found = told(client)
    assert {pool: depth for pool, (depth, _age) in found.items()} == {"default": 2.0, "gpu": 1.0, "(unserved)": 2.0}
    assert all(100 <= age < 160 for _depth, age in found.values()), "the oldest of each"
    engine.claim()
    depth, age = told(client)["default"]
    assert (depth, age < 60) == (1.0, True), "what is left waits since a moment"


def test_a_pool_that_no_worker_serves_has_no_name_there(fresh_db, tenant, client: Client):
    engine = Engine(tenant)
    engine.submit(workflow(tool("a", pool="secret-project")))
    assert told(client)["(unserved)"][0] == 1.0
    assert "secret-project" not in client.get("/metrics").content.decode()
