"""The real agent tasks by real workers against third-party servers, and once more with workers killed (C3.3, C4.4).

The servers' call log is the outside witness: each writing call once and in order. They keep no idempotency keys, so a
write whose answer was lost must end unknown, and nobody may send it again.
"""

from __future__ import annotations

import os
import random
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runtime.store.tx import tenant_tx
from tests.support import tau2
from tests.support.workers import RESTING, Desk, Stack, alive, until

pytestmark = [
    pytest.mark.req("B7.1", "C3.3", "C3.4"),
    pytest.mark.skipif(not tau2.available(), reason="QUARTERDECK_INPUTS: no agent tasks"),
]
AMOUNT = [pytest.param(12, id="dozen"), pytest.param(None, id="all", marks=pytest.mark.proof)]
WITH_KILLS = [pytest.param(8, id="eight"), *AMOUNT[1:]]
SEED = 20260711


def chosen(domain: str, folder: Path, amount: int | None) -> list[tau2.Task]:
    """Return all tasks of a domain, or so many of those that write, spread over the file."""
    found = list(tau2.tasks(domain, folder, "e"))
    if amount is None:
        return found
    writing = [task for task in found if task.writes]
    return writing[:: max(1, len(writing) // amount)][:amount]


def submit_all(desk: Desk, domain: str, tasks: list[tau2.Task], folder: Path) -> dict[uuid.UUID, tau2.Task]:
    """Start each task's shop afresh, register its workflow and submit it."""
    for contract in tau2.contracts(domain, folder):
        desk.tool(contract)
    names = [desk.register(task.workflow()) for task in tasks]
    with ThreadPoolExecutor(4) as several:
        list(several.map(lambda task: task.reset(), tasks))
    return {desk.submit(name, task.input): task for name, task in zip(names, tasks, strict=True)}


def check_run(desk: Desk, run_id: uuid.UUID, task: tau2.Task) -> None:
    """Assert that a run from which nothing was lost did exactly what the task asks for."""
    steps = desk.steps(run_id)
    failing = set(task.failing)
    wrong = {n: s.status for n, s in steps.items() if s.status != ("failed" if n in failing else "succeeded")}
    assert not wrong, (task.state_key, wrong, desk.story(run_id))
    tau2.check_done(task)
    operations = desk.operations(run_id)
    assert all(operation.sends == 1 for operation in operations)
    assert len(operations) == len(task.writes)


@pytest.mark.parametrize("amount", AMOUNT)
@pytest.mark.parametrize("domain", tau2.DOMAINS)
def test_each_write_happens_once_and_in_order(stack, desk, domain, amount, tmp_path):
    runs = submit_all(desk, domain, chosen(domain, tmp_path, amount), tmp_path)
    desk.wait_all(runs, seconds=1200)
    for run_id, task in runs.items():
        check_run(desk, run_id, task)


@pytest.mark.req("C4.4", "A6.2")
@pytest.mark.faults
@pytest.mark.parametrize("amount", WITH_KILLS)
@pytest.mark.parametrize("domain", tau2.DOMAINS)
def test_nothing_is_sent_twice_when_workers_are_killed(fresh_db, desk, domain, amount, tmp_path):
    rng = random.Random(f"{SEED}/{domain}/{amount}")
    tasks = chosen(domain, tmp_path, amount)
    with Stack(fresh_db, workers=4, slots=2) as stack:
        stack.wait_ready()
        runs = submit_all(desk, domain, tasks, tmp_path)
        targets = _targets(rng, runs)
        killed = _kill_at(desk, rng, targets, runs)
        desk.wait_all(runs, seconds=600)
    assert 2 * len(killed) >= len(targets), "most of the chosen steps were hit"
    lost = {run_id for run_id in runs if _check_losses(desk, run_id, runs[run_id])}
    assert lost <= {run_id for run_id in runs if desk.events(run_id, "STEP_UNKNOWN")}
    replayed = [run_id for run_id in runs if any(e.cause == "reconciled" for e in desk.events(run_id, "STEP_WAITING"))]
    assert lost, "no write was hit"
    assert replayed, "no read was hit"


def _targets(rng: random.Random, runs: dict[uuid.UUID, tau2.Task]) -> dict[uuid.UUID, list[str]]:
    """Choose a third of the tasks, four at least, and of each the step at which its worker dies: in turn a reading
    one and a writing one. Behind it stand the later ones of that kind, for when it ends before anybody sees it run.
    """
    some = [run_id for run_id, task in runs.items() if len(task.steps) > 1]
    picked = rng.sample(some, max(4, len(runs) // 3))
    targets = {}
    for number, run_id in enumerate(picked):
        task = runs[run_id]
        writing = [step for step in task.steps if step["kind"] == "write"]
        reading = [step for step in task.steps if step["kind"] != "write"]
        steps = (writing or reading) if number % 2 else (reading or writing)
        first = steps.index(rng.choice(steps))
        targets[run_id] = [tau2.node_id(step) for step in steps[first:]]
    return targets


def _kill_at(
    desk: Desk, rng: random.Random, targets: dict[uuid.UUID, list[str]], runs: dict[uuid.UUID, tau2.Task]
) -> set[uuid.UUID]:
    """Kill -9 the worker of each chosen step some moment after it started; return the runs that were hit.

    A writing step is hit after its intent was committed. Where in the call it dies is part of the draw; when a step
    ends meanwhile, the next of its kind takes its place.
    """
    query = """SELECT s.run_id, s.node, w.pid FROM qd_step s JOIN qd_worker_session w ON w.id = s.worker_session_id
               LEFT JOIN qd_operation o ON o.step_id = s.id
               WHERE s.status = 'running' AND w.ended_at IS NULL AND s.run_id = ANY(%s)
                 AND (o.status = 'sent' OR NOT s.node = ANY(%s))"""
    passed = "SELECT count(*) FROM qd_run WHERE id = ANY(%s) AND status = ANY(%s)"
    writes = {run_id: {tau2.node_id(s) for s in runs[run_id].steps if s["kind"] == "write"} for run_id in targets}
    writing = [node for run_id, nodes in targets.items() for node in nodes if node in writes[run_id]]
    writers = [run_id for run_id, nodes in targets.items() if nodes[0] in writes[run_id]]
    hit: set[uuid.UUID] = set()
    missed: set[tuple[uuid.UUID, str]] = set()

    def running() -> list[tuple[uuid.UUID, str, int]]:
        with tenant_tx(desk.tenant.id) as tx:
            rows = tx.conn.execute(query, [list(targets), writing]).fetchall()
        return [row for row in rows if row[1] in targets[row[0]] and row[0] not in hit and row[:2] not in missed]

    def look() -> bool:
        for one in running():
            later = rng.uniform(0.0, 0.3)
            time.sleep(later if hit & set(writers) and hit - set(writers) else 0.0)
            if one in running() and alive(one[2]):
                os.kill(one[2], signal.SIGKILL)
                hit.add(one[0])
            else:
                missed.add(one[:2])
            return False
        with tenant_tx(desk.tenant.id) as tx:
            resting = tx.conn.execute(passed, [list(runs), list(RESTING)]).fetchone()
        return hit == set(targets) or (resting is not None and resting[0] == len(runs))

    until(look, 1200, "every chosen worker is killed", every=0.005)
    return hit


def _check_losses(desk: Desk, run_id: uuid.UUID, task: tau2.Task) -> bool:
    """Assert what holds of every run, hit or not; return whether a write of it was lost."""
    operations = desk.operations(run_id)
    unknown = [operation for operation in operations if operation.status == "unknown"]
    settled = [operation for operation in operations if operation.status in ("succeeded", "refused")]
    assert len(unknown) + len(settled) == len(operations)
    assert all(operation.sends == 1 for operation in operations)
    tau2.check_no_second_send(task, len(settled))
    if not unknown:
        check_run_after_replay(desk, run_id, task)
        return False
    assert len(unknown) == 1
    run = desk.run(run_id)
    assert run.status == "needs_attention"
    assert run.attention["owner"]
    steps = desk.steps(run_id)
    doubtful = [name for name, step in steps.items() if step.status == "unknown"]
    assert [steps[name].id for name in doubtful] == [unknown[0].step_id]
    order = [tau2.node_id(step) for step in task.steps]
    after = order[order.index(doubtful[0]) + 1 :]
    assert {steps[name].status for name in after} <= {"waiting"}, "nothing goes on behind a doubt"
    return True


def check_run_after_replay(desk: Desk, run_id: uuid.UUID, task: tau2.Task) -> None:
    """Reads may have been made again: the writes and the final state tell."""
    failing = set(task.failing)
    wrong = {
        n: s.status for n, s in desk.steps(run_id).items() if s.status != ("failed" if n in failing else "succeeded")
    }
    assert not wrong, (task.state_key, wrong, desk.story(run_id))
    assert task.writes_made() == task.writes
    assert tau2.canonical_sha256(task.state()["db"]) == task.data["final_db_canonical_sha256"], task.state_key
