"""Many who claim, complete and act at once: no step is owned twice, nothing deadlocks (engine.md 1, C2.9)."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from functools import partial
from typing import Any

import pytest

from runtime.actions.finish import kill_step
from runtime.actions.hold import hold_step, release_step
from runtime.actions.limits import set_limit
from runtime.actions.runs import cancel_run, pause_run, resume_run
from runtime.actions.skip import skip_step
from runtime.graph.plans import plan_of
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.errors import QuarterdeckError
from runtime.machine.apply import request_hold
from runtime.machine.frame import Frame
from runtime.models import Attempt, Run, Step
from runtime.store.arrays import arrays
from runtime.store.tx import RETRYABLE, plain_tx, tenant_tx
from runtime.worker.claim import Claimer
from runtime.worker.complete import complete
from runtime.worker.maintenance import lost, timers
from runtime.worker.work import Report
from tests.support.engine import Engine
from tests.support.patience import patient
from tests.support.race import Held, held, together
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C2.9")
_OUTPUT = canonical_bytes({})


def done(claimed: Any) -> Report:
    report = Report(claimed, "succeeded", output=_OUTPUT, output_sha256=digest(_OUTPUT))
    if claimed.node.kind == "switch":
        report.choice = list(claimed.node.default)
    return report


def claimer(engine: Engine, seen: list[tuple[uuid.UUID, int]], rng: random.Random, stop: threading.Event) -> int:
    """Claim and complete until told to stop or nothing is open; returns how many steps it ran."""
    mine, count = Claimer(engine.open_session()), 0
    while not stop.is_set():
        try:
            claimed = mine.claim(engine.tenant.id, "default", rng.randint(1, 20))
        except RETRYABLE:
            raise AssertionError("the claim waited for a lock") from None
        seen += [(one.step_id, one.owner_epoch) for one in claimed]
        if claimed:
            complete(engine.tenant.id, [done(one) for one in claimed])
            count += len(claimed)
        elif not _open(engine):
            return count
    return count


def _open(engine: Engine) -> bool:
    with tenant_tx(engine.tenant.id):
        return Run.objects.filter(finished_at__isnull=True).exists()


@pytest.mark.parametrize("number", [2, 4, 8])
def test_no_step_is_claimed_twice(fresh_db, engine, number):
    wide = workflow(
        tool("a"), *[tool(f"m{i}", "a") for i in range(150)], tool("z", *[f"m{i}" for i in range(150)]), name="wide"
    )
    chain = workflow(tool("a"), tool("b", "a"), tool("c", "b"), name="chain")
    runs = [engine.submit(wide), *[engine.submit(chain) for _ in range(60)]]
    seen: list[list[tuple[uuid.UUID, int]]] = [[] for _ in range(number)]
    stop = threading.Event()
    counts = together(
        *[lambda i=i: claimer(engine, seen[i], random.Random(i), stop) for i in range(number)], seconds=100
    )
    claims = [one for mine in seen for one in mine]
    assert len(claims) == len(set(claims)) == sum(counts) == 152 + 180
    assert max(Counter(step_id for step_id, _epoch in claims).values()) == 1
    assert {engine.run(run_id).status for run_id in runs} == {"completed"}


def test_a_claim_does_not_wait_for_a_held_run(fresh_db, engine):
    blocked, free = engine.submit(workflow(tool("a"))), engine.submit(workflow(tool("a")))
    with held(fresh_db, "qd_run", blocked):
        # A claim that waited would wait for this very block to end, and the test's time limit would tell.
        assert [claimed.run_id for claimed in engine.claim()] == [free]
    assert [claimed.run_id for claimed in engine.claim()] == [blocked]


def test_a_claim_keeps_no_step_of_a_run_that_others_hold(fresh_db, engine):
    blocked, free = engine.submit(workflow(tool("a"))), engine.submit(workflow(tool("a")))
    step_id = engine.step(blocked, "a").id
    with held(fresh_db, "qd_run", blocked) as holder, tenant_tx(engine.tenant.id) as tx:
        rows = tx.rows("claim_ready", ("default", engine.tenant.id, arrays("u", [])[0], 10))
        assert [row[0] for row in rows] == [engine.step(free, "a").id]
        # Who holds the run changes its steps, and must not wait for the claim's transaction.
        query = "SELECT count(*) FROM (SELECT FROM qd_step WHERE id = %s FOR UPDATE SKIP LOCKED) x"
        assert holder.connection.execute(query, [step_id]).fetchone() == (1,)


@pytest.mark.req("C2.7")
def test_who_holds_a_limit_and_changes_a_queued_step_meets_no_claim(fresh_db, engine):
    """As a completion does that goes on under a limit and ends what an OR join has no use for any more."""
    bound = set_limit(actor=engine.actor, scope="tool", name="core.noop", most=5)["limit_id"]
    blocked, free = engine.submit(workflow(tool("a"))), engine.submit(workflow(tool("a")))
    with tenant_tx(engine.tenant.id) as tx:
        frame = Frame(tx, plan_of)
        run = frame.run(blocked)
        tx.rows("lock_limits", arrays("u", [(uuid.UUID(bound),)]))
        claim = Held(tx.conn).queue(engine.claim)
        frame.load([(blocked, "a")])
        request_hold(run, run.steps["a"], True, actor=None, reason=None)
        frame.flush()
    assert [claimed.run_id for claimed in claim.outcome()] == [free]


def test_claim_against_cancel(fresh_db, engine):
    """At once, thirty times: a step is claimed before the cancel and killed by it, or never claimed."""
    for _ in range(30):
        run_id = engine.submit(workflow(tool("a"), tool("b")))
        together(engine.claim, lambda run_id=run_id: cancel_run(actor=engine.actor, run_id=run_id, reason="stop"))
        assert engine.run(run_id).status == "cancelled"
        for status in engine.statuses(run_id).values():
            assert status in ("killed(cancelled)", "skipped(cancelled)")
        assert engine.claim() == []
        engine.check(run_id)


def test_claim_against_pause(fresh_db, engine):
    for _ in range(30):
        run_id = engine.submit(workflow(tool("a"), tool("b")))
        claimed, _ = together(
            engine.claim, lambda run_id=run_id: pause_run(actor=engine.actor, run_id=run_id, reason="w")
        )
        running = [status for status in engine.statuses(run_id).values() if status == "running"]
        assert len(running) == len(claimed)
        assert engine.claim() == [], "a paused run gives nothing out"
        resume_run(actor=engine.actor, run_id=run_id, reason="go")
        rest = engine.claim()
        assert len(claimed) + len(rest) == 2
        complete(engine.tenant.id, [done(one) for one in [*claimed, *rest]])
        assert engine.run(run_id).status == "completed"


SHAPES = (
    workflow(tool("a"), tool("b", "a"), tool("c", "a"), tool("d", "b", "c"), name="diamond"),
    workflow(tool("a"), tool("b"), tool("j", "a", "b", join={"mode": "any"}), tool("z", "j"), name="race"),
    workflow(tool("a"), {"id": "w", "kind": "wait", "seconds": 0.2, "after": ["a"]}, tool("z", "w"), name="timer"),
    workflow(*[tool(f"n{i}") for i in range(12)], tool("z", *[f"n{i}" for i in range(12)]), name="wide"),
)


class Crowd:
    """Everybody who works on one tenant's runs, each a loop in a thread for ``seconds``.

    On a slow machine for longer: until there are enough runs, and a worker was lost with steps in its hands.
    """

    def __init__(self, engine: Engine, seconds: float) -> None:
        self.engine, self.end, self.last = engine, time.monotonic() + seconds, time.monotonic() + patient(seconds)
        self.errors: list[str] = []
        self.submitted, self.lost = 0, False

    def on(self) -> bool:
        now, enough = time.monotonic(), self.lost and self.submitted > 20
        return now < (self.end if enough else self.last)

    def submitter(self) -> None:
        rng = random.Random(1)
        while self.on():
            self.engine.submit(rng.choice(SHAPES))
            self.submitted += 1
            time.sleep(0.02)

    def worker(self, seed: int) -> None:
        """Claim and complete; now and then die with the steps in its hands, and perhaps speak up late."""
        rng, mine = random.Random(seed), Claimer(self.engine.open_session())
        while self.on():
            claimed = mine.claim(self.engine.tenant.id, "default", rng.randint(1, 8))
            rng.shuffle(claimed)
            on_purpose = seed == 0 and not self.lost
            if claimed and (on_purpose or rng.random() < 0.05):
                with plain_tx() as tx:
                    tx.send("end_sessions", ("process_died", [mine.session_id]))
                mine = Claimer(self.engine.open_session())
                if on_purpose or rng.random() < 0.5:
                    continue
            complete(self.engine.tenant.id, [done(one) for one in claimed])

    def operator(self, seed: int) -> None:
        rng = random.Random(seed)
        while self.on():
            with tenant_tx(self.engine.tenant.id):
                steps = list(Step.objects.filter(superseded=False, finished_at__isnull=True).order_by("-id")[:30])
            for step in rng.sample(steps, min(4, len(steps))):
                try:
                    self._act(rng, step)
                except QuarterdeckError as refused:
                    if refused.http_status >= 500:
                        self.errors.append(repr(refused))

    def _act(self, rng: random.Random, step: Step) -> None:
        actor = self.engine.actor
        if rng.random() < 0.15:
            rng.choice([cancel_run, pause_run, resume_run])(actor=actor, run_id=step.run_id, reason="because")
        else:
            verb = rng.choice([kill_step, skip_step, hold_step, release_step])
            verb(actor=actor, step_id=step.id, expected_version=step.version, reason="because")

    def scheduler(self) -> None:
        while self.on():
            timers.fire_timers()
            if any(lost.return_orphans().values()):
                self.lost = True
            time.sleep(0.01)


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(6, id="short"), pytest.param(120, id="long", marks=[pytest.mark.proof])],
)
def test_everybody_at_once(fresh_db, engine, seconds):
    """Claimers, operators, schedulers and dying sessions on the same runs; at the end everything is at rest."""
    crowd = Crowd(engine, seconds)
    several = [partial(crowd.worker, seed) for seed in range(3)] + [partial(crowd.operator, seed) for seed in (7, 8)]
    together(crowd.submitter, crowd.scheduler, crowd.scheduler, *several, seconds=seconds + 60)
    assert not crowd.errors, crowd.errors[:3]
    _settle(engine)
    with tenant_tx(engine.tenant.id):
        assert not Step.objects.filter(status="running").exists()
        assert Run.objects.count() > 20
        assert Attempt.objects.filter(outcome="lost").exists()
        left = set(Run.objects.filter(finished_at__isnull=True).values_list("status", flat=True))
    assert not left, "every run came to its end"


def _settle(engine: Engine) -> None:
    """Resume, release and finish what is left."""
    deadline = time.monotonic() + patient(60)
    while _open(engine) and time.monotonic() < deadline:
        with tenant_tx(engine.tenant.id):
            paused = list(Run.objects.filter(paused=True, finished_at__isnull=True))
            holds = list(Step.objects.filter(superseded=False, finished_at__isnull=True, hold_requested=True))
            holds += list(Step.objects.filter(superseded=False, status="hold"))
        for run in paused:
            resume_run(actor=engine.actor, run_id=run.id, reason="go")
        for step in holds:
            try:
                release_step(actor=engine.actor, step_id=step.id, expected_version=None, reason="go")
            except QuarterdeckError:
                continue
        timers.fire_timers()
        lost.end_expired_sessions()
        lost.return_orphans()
        complete(engine.tenant.id, [done(one) for one in engine.claim()] or [])
