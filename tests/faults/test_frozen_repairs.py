"""Workers frozen past their lease while a repair holds the new epoch, two hundred times, in random places (C2.9, C8.2).

What the frozen worker still says is refused and kept; once its lease is over it sends nothing; and when the person who
looked outside has closed the case, the books show one effect, whoever made it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from repair.actions.claim import claim_case
from repair.actions.investigate import record_answer
from repair.actions.open import open_case
from repair.actions.propose import propose_resolution
from repair.actions.resolve import review_proposal
from repair.models import Case
from runtime.kernel.actor import Actor
from runtime.store.tx import tenant_tx
from tests.support.actors import member
from tests.support.nodes import node
from tests.support.shop import Shop
from tests.support.workers import Desk, Stack, frozen, until

SERVER = Path(__file__).resolve().parents[1] / "support" / "mcp_tool.py"
ROUNDS = int(os.environ.get("FROZEN_ROUNDS", "200"))
TOGETHER = 20
# Where the worker stands when it is stopped: the intent is committed and no byte is sent; the call was delivered and
# nothing is applied yet; it is applied and the answer is on its way.
FIRST_BYTE, DELIVERED, APPLIED = "first_byte", "delivered", "applied"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """The outside, in a process of its own, with its own books."""
    with Shop(tmp_path) as shop:
        yield shop


@dataclass
class Round:
    """One run whose worker is frozen in ``place``; ``early``: it is taken over before its lease is over."""

    order: str
    place: str
    early: bool
    run_id: uuid.UUID = field(default_factory=uuid.uuid4)
    epoch: int = 0


class Bench:
    """The frozen workers' desk: who repairs, what is outside, and the gate before which a call has sent nothing."""

    def __init__(self, stack: Stack, desk: Desk, shop: Shop, folder: Path) -> None:
        self.stack, self.desk, self.shop = stack, desk, shop
        self.oncall, self.second = (member(desk.tenant, "oncall") for _ in range(2))
        self.gate, self.log = folder / "gate", folder / "log"
        self.log.touch()
        wait = (
            f"import os, runpy, sys, time\nwhile not os.path.exists({str(self.gate)!r}): time.sleep(0.02)\n"
            f"sys.argv = ['s', {str(self.log)!r}]; runpy.run_path({str(SERVER)!r}, run_name='__main__')"
        )
        late = {
            "name": "late.add",
            "version": 1,
            "adapter": "mcp",
            "config": {"tool": "add", "command": sys.executable, "args": ["-c", wait], "session": "call"},
            "input_schema": {"type": "object"},
            "side_effect": "write",
            "recovery": "human",
            "timeout_s": 120,
        }
        pickup = {**shop.contract("pickup"), "timeout_s": 120}
        self.flows = {
            kind: desk.workflow(
                node("pay", desk.tool(tool), business_key="'pay:' + input.order", input={name: {"$": "input.order"}}),
                name=kind,
            )
            for kind, tool, name in (("late", late, "a"), ("pickup", pickup, "order_id"))
        }

    def begin(self, rounds: list[Round]) -> None:
        """Submit the rounds and return once each stands in its place."""
        self.gate.unlink(missing_ok=True)
        for one in rounds:
            if one.place != FIRST_BYTE:
                manner = {"before" if one.place == DELIVERED else "after": "hang", "seconds": 300}
                self.shop.tell("pickup", one.order, **manner)
            flow = self.flows["late" if one.place == FIRST_BYTE else "pickup"]
            one.run_id = self.desk.submit(flow, {"order": one.order})
        called = {one.order for one in rounds if one.place != FIRST_BYTE}

        def there() -> bool:
            sent = all([o.status for o in self.desk.operations(one.run_id)] == ["sent"] for one in rounds)
            return sent and called <= {one["order_id"] for one in self.shop.ask("/control/calls")["items"]}

        until(there, 60, "every call is under way", every=0.1)

    def case(self, one: Round) -> Case | None:
        with tenant_tx(self.desk.tenant.id):
            return Case.objects.filter(run_id=one.run_id).exclude(state="resolved").first()

    def take(self, one: Round) -> None:
        """Claim the round's case, opened by hand or by the engine, and keep the epoch that the claim took."""
        step = self.desk.step(one.run_id, "pay")
        if one.early:
            open_case(actor=self.oncall, run_id=one.run_id, step_id=step.id, reason="it does not move")
        case = until(lambda: self.case(one), 60, f"a case about {one}", every=0.1)
        answer = claim_case(actor=self.oncall, case_id=case.id, expected_version=case.version)
        one.epoch = answer["owner_epoch"]
        assert one.epoch > answer["epoch_before"] >= step.owner_epoch

    def close(self, one: Round) -> None:
        """Look outside, say what is there, and close the case with a second person; its id is the repair's."""
        case = self.case(one)
        assert case is not None
        found = self.effects(one)
        assert found == (0 if one.place == FIRST_BYTE else 1)
        seen = partial(record_answer, actor=self.oncall, case_id=case.id, evidence="looked it up", source="the books")
        if found:
            seen(answer="done", reference=one.order, expected_version=case.version)
            self._carry_out(case.id, "record_success", {"external_ref": one.order})
        else:
            seen(answer="absent", reference="", expected_version=case.version)
            self._carry_out(case.id, "resume_step", {})

    def _carry_out(self, case_id: uuid.UUID, resolution: str, arguments: dict[str, Any]) -> None:
        words: dict[str, Any] = {"case_id": case_id, "reason": "looked it up"}
        said = propose_resolution(
            actor=self.oncall, resolution=resolution, arguments=arguments, expected_version=None, **words
        )
        assert said["needs_review"]
        review = partial(review_proposal, case_id=case_id, repair_id=uuid.UUID(said["repair_id"]), decision="approve")
        reviewer: Actor = self.second
        review(actor=reviewer, expected_version=said["version"])
        # Clicked twice, it is answered alike and does nothing more.
        assert review(actor=reviewer, expected_version=said["version"])["replayed"]

    def effects(self, one: Round) -> int:
        """Return how many effects of the round stand in the books outside."""
        if one.place != FIRST_BYTE:
            return len(self.shop.effects(one.order, "pickups"))
        return self.written()[one.order]

    def written(self) -> Counter[str]:
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return Counter(line["arguments"]["a"] for line in lines if line["what"] == "effect")


def freeze(bench: Bench, rounds: list[Round], order: random.Random) -> None:
    """Freeze every worker that has a round, repair meanwhile, let them go on, and look what they did."""
    desk, stack = bench.desk, bench.stack
    bench.begin(rounds)
    sessions = {desk.step(one.run_id, "pay").worker_session_id for one in rounds}
    with frozen(*{stack.pid_of(session) for session in sessions}):
        bench.gate.touch()
        order.shuffle(rounds)
        for one in rounds:
            if one.early:
                bench.take(one)
        until(lambda: not sessions & set(stack.sessions()), 30, "the leases are over")
        bench.shop.behave()
        for one in rounds:
            if not one.early:
                bench.take(one)
        delivered = [one for one in rounds if one.place != FIRST_BYTE]
        until(lambda: all(bench.effects(one) for one in delivered), 30, "what was delivered is applied")
        before = bench.written()
    for one in rounds:
        stale = until(lambda run=one.run_id: desk.events(run, "STALE_SUBMIT"), 60, f"{one} reports", every=0.1)
        assert [late.payload["submitted_epoch"] < one.epoch for late in stale] == [True] * len(stale), one
        step, (operation,) = desk.step(one.run_id, "pay"), desk.operations(one.run_id)
        assert (step.status, step.owner_epoch) == ("unknown", one.epoch)
        assert (operation.status, operation.sends) == ("unknown", 1)
        assert desk.run(one.run_id).status == "needs_attention"
    assert bench.written() == before, "nothing is sent once the lease is over"
    stack.wait_ready()
    for one in rounds:
        bench.close(one)
    ended = desk.wait_all([one.run_id for one in rounds])
    assert set(ended.values()) == {"completed"}, ended
    assert {one.order: bench.effects(one) for one in rounds} == {one.order: 1 for one in rounds}
    calls = Counter(call["order_id"] for call in bench.shop.ask("/control/calls")["items"] if call["to"] == "pickup")
    assert {calls[one.order] for one in delivered} <= {1}


@pytest.mark.faults
@pytest.mark.proof
@pytest.mark.req("C2.9", "C8.2", "C8.4")
def test_a_frozen_worker_never_undoes_what_a_repair_decided(stack_of, desk, shop, tmp_path):
    seed = int(os.environ.get("FROZEN_SEED", uuid.uuid4().int % 1_000_000))
    print(f"seed {seed}")
    order = random.Random(seed)
    bench = Bench(stack_of(workers=2), desk, shop, tmp_path)
    left = ROUNDS
    while left:
        some = min(TOGETHER, left)
        left -= some
        places = (FIRST_BYTE, DELIVERED, APPLIED)
        freeze(
            bench,
            [Round(f"o-{left}-{n}", order.choice(places), order.random() < 0.5) for n in range(some)],
            order,
        )
