"""A machine of random acts over random small graphs: whatever happens, the invariants hold (C8.3)."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from runtime.actions.ending import end_for_deadline
from runtime.actions.reruns import new_run, rerun_task
from runtime.actions.runs import cancel_run, pause_run, resume_run
from runtime.actions.steps import (
    force_step,
    hold_step,
    kill_step,
    release_step,
    rerun_step,
    resolve_hold,
    skip_step,
    unskip_step,
)
from runtime.kernel.errors import Conflict
from runtime.models import Step
from runtime.queries.invariants import breaches_of
from runtime.queries.rebuild import rebuild_run
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.maintenance.lost import return_orphans
from runtime.worker.maintenance.timers import fire_timers
from tests.support.actors import the_engine
from tests.support.clock import Clock
from tests.support.engine import Engine, sweep
from tests.support.factories import make_tenant
from tests.support.hypotheses import run
from tests.support.operations import send
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("C8.3", "A5.1", "C1.4"), pytest.mark.django_db(transaction=True)]

STEP_VERBS = [skip_step, unskip_step, hold_step, release_step, kill_step, force_step, rerun_step]
RUN_VERBS = [pause_run, resume_run, resume_run, cancel_run]
TERMINAL = ("succeeded", "failed", "killed", "skipped", "mark_successed")
ENDED = ("completed", "partially_completed", "failed", "cancelled")
JOINS: list[dict[str, Any] | None] = [
    None,
    None,
    {"mode": "any"},
    {"mode": "all", "policy": "at_least", "n": 1},
    {"mode": "all", "policy": "all_done"},
]


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a workflow of two to seven nodes: tools, approvals, waits and switches over random edges and joins."""
    nodes: list[dict[str, Any]] = []
    for index in range(draw(st.integers(2, 7))):
        sources = draw(st.lists(st.sampled_from([n["id"] for n in nodes]), unique=True, max_size=3)) if nodes else []
        # A step that takes over for others has no plain edges (checks_undo).
        policies = ["fallback"] if draw(st.integers(0, 9)) == 0 else ["fail_fast", "continue_on_error", "manual_review"]
        after = [
            {"node": source, "on_failure": draw(st.sampled_from(policies)), "optional": draw(st.booleans())}
            for source in sources
        ]
        kind = draw(st.sampled_from(["tool"] * 6 + ["approval", "wait", "switch"]))
        node: dict[str, Any] = {"id": f"n{index}", "kind": kind, "after": after}
        if kind == "tool":
            node = tool(f"n{index}", *after)
        elif kind == "approval":
            node["title"] = "May it?"
        elif kind == "wait":
            node["seconds"] = 30
        else:
            node |= {"cases": [], "default": []}
        if len(after) > 1 and (join := draw(st.sampled_from(JOINS))):
            node["join"] = join
        if len(after) > 1 and draw(st.booleans()):
            node["join"] = {**node.get("join", {}), "timeout_s": draw(st.sampled_from([20, 60]))}
        nodes.append(node)
    _wire_switches(draw, nodes)
    return workflow(*nodes, name=f"w{uuid.uuid4().hex[:12]}")


def _wire_switches(draw: st.DrawFn, nodes: list[dict[str, Any]]) -> None:
    """Let each switch lead to two later nodes; one without two of them becomes a tool."""
    for index, node in enumerate(nodes):
        if node["kind"] != "switch":
            continue
        later = [n["id"] for n in nodes[index + 1 :]]
        if len(later) < 2:
            nodes[index] = tool(node["id"], *node["after"])
            continue
        first, second = draw(st.permutations(later))[:2]
        node["cases"], node["default"] = [{"when": "input.big", "to": [first]}], [second]
        for target in (n for n in nodes[index + 1 :] if n["id"] in (first, second)):
            for edge in target["after"]:
                edge["on_failure"] = edge["on_failure"].replace("fallback", "continue_on_error")


def unless_refused(act: Any, **arguments: Any) -> dict[str, Any] | None:
    """Return the act's answer, None when the law or another's move refuses it; any other error is a failure."""
    try:
        return act(**arguments)
    except Conflict:
        return None


class Machine(RuleBasedStateMachine):
    """Submits one task and lets everybody act on it: workers, operators, timers, lost workers, the deadline."""

    database: Any

    @initialize(document=documents(), deadline=st.booleans())
    def begin(self, document: dict[str, Any], deadline: bool) -> None:
        self.engine = Engine(make_tenant())
        self.connection = self.database.connect()
        self.clock = Clock(self.connection)
        self.document = document
        later = self.clock.now().replace(year=self.clock.now().year + 1) if deadline else None
        self.runs = [self.engine.submit(document, deadline=later)]
        self.task_id = self.engine.run(self.runs[0]).task_id
        self.held: dict[uuid.UUID, Any] = {}
        self.ended: dict[uuid.UUID, tuple[str, int]] = {}
        self.final: dict[uuid.UUID, str] = {}

    def steps(self) -> list[Step]:
        with tenant_tx(self.engine.tenant.id):
            return list(Step.objects.filter(run_id=self.runs[-1], superseded=False).order_by("id"))

    # -- workers

    @rule(limit=st.integers(1, 3))
    def claim(self, limit: int) -> None:
        for claimed in self.engine.claim(limit):
            self.held[claimed.step_id] = claimed

    @precondition(lambda self: self.held)
    @rule(
        pick=st.randoms(use_true_random=False),
        outcome=st.sampled_from(["succeeded"] * 4 + ["failed", "retry", "given_back", "approval"]),
        keep=st.booleans(),
    )
    def report(self, pick: random.Random, outcome: str, keep: bool) -> None:
        """A worker reports; sometimes it reports again later, as a stale one does."""
        claimed = self._pick(pick)
        if not keep:
            del self.held[claimed.step_id]
        more: dict[str, Any] = {}
        if claimed.node.kind == "switch" and outcome == "succeeded":
            more["choice"] = list(claimed.node.default if pick.random() < 0.5 else claimed.node.cases[0].to)
        if claimed.operation_id is not None:
            more["operation_status"] = "succeeded" if outcome == "succeeded" else "refused"
        if outcome == "approval":
            self.engine.report(claimed, "yielded", cause="approval", **more)
        elif outcome == "given_back":
            self.engine.report(claimed, "given_back", cause="given_back", **more)
        else:
            self.engine.report(claimed, outcome, **more)

    @precondition(lambda self: self.held)
    @rule(pick=st.randoms(use_true_random=False), lost=st.booleans())
    def send(self, pick: random.Random, lost: bool) -> None:
        """A worker sends a writing call; its answer may be lost."""
        claimed = self._pick(pick)
        step = next((s for s in self.steps() if s.id == claimed.step_id), None)
        run = self.engine.run(self.runs[-1])
        if (
            run.paused
            or run.cancel_requested
            or step is None
            or step.status != "running"
            or step.owner_epoch != claimed.owner_epoch
        ):
            return
        if claimed.operation_id is None:
            send(
                self.engine,
                claimed,
                f"key:{claimed.step_id}:{claimed.attempt}",
                recovery=pick.choice(["query", "human"]),
            )
        if lost:
            del self.held[claimed.step_id]
            self.engine.report(claimed, "unknown", operation_status="unknown")

    @rule()
    def lose_the_worker(self) -> None:
        with plain_tx() as tx:
            tx.send("end_sessions", ("process_died", [self.engine.session_id]))
        return_orphans()
        self.engine.renew()

    @rule(seconds=st.sampled_from([10, 40, 100]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        fire_timers()

    def _pick(self, pick: random.Random) -> Any:
        return self.held[pick.choice(sorted(self.held))]

    # -- people

    @rule(verb=st.sampled_from(STEP_VERBS), pick=st.randoms(use_true_random=False), stale=st.integers(0, 9))
    def act_on_a_step(self, verb: Any, pick: random.Random, stale: int) -> None:
        step = pick.choice(self.steps())
        version = step.version + (stale == 0)
        answer = unless_refused(
            verb, actor=self.engine.actor, step_id=step.id, expected_version=version, reason="because"
        )
        assert stale != 0 or answer is None, "a stale version was accepted"
        self._follow(answer)

    @rule(granted=st.booleans(), pick=st.randoms(use_true_random=False))
    def decide(self, granted: bool, pick: random.Random) -> None:
        holds = [step for step in self.steps() if step.status == "hold"]
        if not holds:
            return
        step = pick.choice(holds)
        unless_refused(resolve_hold, actor=self.engine.actor, step_id=step.id, granted=granted, reason="so")

    @rule(verb=st.sampled_from(RUN_VERBS))
    def act_on_the_run(self, verb: Any) -> None:
        unless_refused(verb, actor=self.engine.actor, run_id=self.runs[-1], reason="because")

    @rule(start=st.sampled_from([new_run, rerun_task]))
    def start_again(self, start: Any) -> None:
        self._follow(unless_refused(start, actor=self.engine.actor, task_id=self.task_id, reason="again"))

    @rule()
    def the_deadline_duty_looks(self) -> None:
        end_for_deadline(actor=the_engine(self.engine.tenant), run_id=self.runs[-1])

    def _follow(self, answer: dict[str, Any] | None) -> None:
        if answer is None:
            return
        run_id = uuid.UUID(answer["run_id"])
        if run_id not in self.runs:
            self.runs.append(run_id)

    # -- what holds after every act

    @invariant()
    def the_events_rebuild_the_rows(self) -> None:
        for run_id in self.runs[-2:]:
            assert rebuild_run(run_id, self.engine.tenant.id) == []

    @invariant()
    def no_end_is_left(self) -> None:
        with tenant_tx(self.engine.tenant.id):
            rows = list(Step.objects.filter(run_id__in=self.runs))
        for step in rows:
            before = self.final.get(step.id)
            if before == "mark_successed" or step.superseded:
                assert before is None or step.status == before
            if before in ("succeeded", "failed", "killed"):
                assert step.status in (before, "mark_successed")
                assert before != "succeeded" or step.status == before
            if step.status in TERMINAL:
                self.final[step.id] = step.status
        for run_id in self.runs:
            run = self.engine.run(run_id)
            told = self.ended.setdefault(run_id, (run.status, run.version)) if run.status in ENDED else None
            assert run_id not in self.ended or told == (run.status, run.version)

    @invariant()
    def nothing_waits_for_what_is_decided(self) -> None:
        run = self.engine.run(self.runs[-1])
        if run.status in ENDED:
            return
        for step in self.steps():
            assert not (step.status == "waiting" and step.cause is None and step.deps_left == 0), step.node

    @invariant()
    def a_join_with_a_time_limit_does_not_wait_for_ever(self) -> None:
        """From the first input that ended it has a time, while it waits; a pause may end and let it have one."""
        run = self.engine.run(self.runs[-1])
        limited = {node["id"] for node in self.document["nodes"] if "timeout_s" in node.get("join", {})}
        if run.status in ENDED:
            return
        for step in self.steps():
            if step.node not in limited or step.status != "waiting" or step.cause is not None:
                continue
            ended = step.deps_ok + step.deps_bskip + step.deps_err + step.deps_bad > 0
            assert (step.not_before is not None) == ended, step.node

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        found = breaches_of(self.engine.tenant.id)
        self.connection.close()
        sweep(self.database, self.engine.tenant.id)
        assert found == []


def run_machine(database: Any, examples: int, steps: int, *, at_random: bool = False) -> None:
    Machine.database = database
    with database.connect() as connection:
        try:
            run(
                Machine,
                settings(
                    max_examples=examples,
                    stateful_step_count=steps,
                    deadline=None,
                    derandomize=not at_random,
                    suppress_health_check=list(HealthCheck),
                    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
                ),
            )
        finally:
            Clock(connection).reset()


def test_any_order_of_acts_keeps_the_law(fresh_db):
    run_machine(fresh_db, examples=15, steps=25)


@pytest.mark.proof
def test_any_long_order_of_acts_keeps_the_law(fresh_db):
    run_machine(fresh_db, examples=150, steps=60, at_random=True)
