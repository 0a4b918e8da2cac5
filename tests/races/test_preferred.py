"""The claim and the duty that moves a step out of its preferred pool: one of them has it (C8.2, C2.7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runtime.worker.claim import Claimer
from runtime.worker.maintenance import each
from runtime.worker.maintenance.preferred import leave_preferred
from tests.support.race import together
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C2.7", "C8.2"), pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _nothing_is_left_alone() -> Iterator[None]:
    each.forget()
    yield
    each.forget()


def test_claim_and_move_of_one_step_end_in_one_owner(engine, as_role):
    document = workflow(tool("a", prefer={"pool": "near", "for_s": 60}))
    for _ in range(20):
        run = engine.submit(document)

        def claim() -> list[Any]:
            return Claimer(engine.session_id).claim(engine.tenant.id, "near", 10)

        with as_role("worker"):
            claimed, moved = together(claim, leave_preferred)
            moved += leave_preferred()  # who found the row held has a later turn
            step = engine.step(run, "a")
            assert (len(claimed), moved) in ((1, 0), (0, 1))
            assert (step.status, step.pool) == (("running", "near") if claimed else ("queued", "default"))
            assert step.prefer_until is None
            claimed = claimed or engine.claimer.claim(engine.tenant.id, "default", 10)
            engine.report(claimed[0], "succeeded")
        assert engine.types(run, "a").count("STEP_STARTED") == 1
        engine.check(run)
