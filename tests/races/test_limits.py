"""Many who claim under one limit: it is never exceeded, nothing is lost, nothing deadlocks (C2.7)."""

from __future__ import annotations

import random
import uuid
from functools import partial

import pytest

from runtime.actions.limits import set_limit
from runtime.models import Limit, Step
from runtime.store.tx import RETRYABLE, tenant_tx
from runtime.worker.claim import Claimer
from runtime.worker.complete import complete
from runtime.worker.gates import let_go
from runtime.worker.maintenance.gates import Turnstile
from runtime.worker.onward import Onward
from runtime.worker.work import Claimed
from tests.races.test_claims import done
from tests.support.engine import Engine
from tests.support.race import together
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C2.7", "C2.9")
MOST = 3


def work(engine: Engine, seed: int, seen: list[int]) -> int:
    """Claim, complete and go on until nothing is open; returns how many steps it ran."""
    rng, mine, count = random.Random(seed), Claimer(engine.open_session()), 0
    held: list[Claimed] = []
    while True:
        try:
            held += mine.claim(engine.tenant.id, "default", rng.randint(1, 6))
        except RETRYABLE:
            continue
        seen.append(running(engine))
        if not held:
            if not is_open(engine):
                return count
            Turnstile().run_once()
            continue
        size = rng.randint(1, len(held))
        batch, held = held[:size], held[size:]
        onward = Onward(mine, ["default"], 4, 4) if rng.random() < 0.7 else None
        answer = complete(engine.tenant.id, [done(one) for one in batch], onward)
        held += answer.taken
        count += len(batch)
        let_go(engine.tenant.id, answer.freed)


def running(engine: Engine) -> int:
    with tenant_tx(engine.tenant.id):
        return Step.objects.filter(status="running").count()


def is_open(engine: Engine) -> bool:
    with tenant_tx(engine.tenant.id):
        return Step.objects.filter(status__in=["waiting", "queued", "running"]).exists()


def test_a_limit_is_never_exceeded(engine):
    bound = set_limit(actor=engine.actor, scope="tool", name="core.noop", most=MOST)["limit_id"]
    set_limit(actor=engine.actor, scope="tenant", most=2 * MOST)
    document = workflow(
        *(tool(f"a{i}") for i in range(6)), *(tool(f"b{i}", f"a{i}") for i in range(6)), name="w", max_parallel=4
    )
    runs = [engine.submit(document) for _ in range(12)]
    seen: list[int] = []
    counts = together(*(partial(work, engine, seed, seen) for seed in range(4)), seconds=240)
    assert sum(counts) == 12 * 12
    assert max(seen) <= MOST
    assert {engine.run(run_id).status for run_id in runs} == {"completed"}
    with tenant_tx(engine.tenant.id):
        assert Limit.objects.get(id=uuid.UUID(bound)).used == 0
