"""The fault matrix of C8.1: eight places of failure by five kinds of action, with real workers and a real shop.

Each cell ends in exactly one of: completed, controlled retry, human. The shop's own books are the judge: never more
than one effect, and where nobody can be certain, a person with owner, evidence and due date. Each leaves its record
in ``build/fault_matrix``, and all of them the table ``build/fault_matrix.md``. No fault alone undoes an effect or
pauses a run: two more cells show how those two ends come about.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from runtime.actions.runs import pause_run, resume_run
from tests.faults.matrix.cell import KINDS, Cell, Expected, Gate, pid_running, waiting_for
from tests.faults.test_frozen import frozen
from tests.support import db as support
from tests.support.workers import alive, until

pytestmark = [
    pytest.mark.faults,
    pytest.mark.req("C8.1"),
    pytest.mark.django_db(transaction=True),
]

COMPLETED = Expected("completed", 1, "completed", 1)
AGAIN = Expected("completed", 1, "controlled retry")
HUMAN_DONE = Expected("needs_attention", 1, "human", 1)
HUMAN_NOTHING = Expected("needs_attention", 0, "human", 1)
READ = Expected("completed", 0, "controlled retry", 0)

# Sent again where the tool tells a second send, else a person's.
UNCERTAIN_AND_ABSENT = {
    "read_only": READ,
    "idempotent": AGAIN,
    "query_no_retry": HUMAN_NOTHING,
    "compensable": AGAIN,
    "human_only": HUMAN_NOTHING,
}
# Found where the tool can be asked, else a person's.
UNCERTAIN_AND_APPLIED = {
    "read_only": READ,
    "idempotent": COMPLETED,
    "query_no_retry": COMPLETED,
    "compensable": COMPLETED,
    "human_only": HUMAN_DONE,
}

# One cell of each place and at least two of each kind run with every `make test`; the rest belongs to the proof.
QUICK = {
    ("before_call", "compensable"),
    ("before_call", "read_only"),
    ("delivered_no_receipt", "idempotent"),
    ("delivered_no_receipt", "query_no_retry"),
    ("downstream_committed", "compensable"),
    ("downstream_committed", "human_only"),
    ("during_checkpoint", "idempotent"),
    ("callback_late", "human_only"),
    ("callback_late", "query_no_retry"),
    ("lease_lost", "query_no_retry"),
    ("version_migration", "idempotent"),
    ("frozen_before_first_byte", "read_only"),
}

CellOf = Callable[[str, str], Cell]


def cells(place: str) -> pytest.MarkDecorator:
    """Parametrize a place by kind; what is not quick is marked as proof."""
    made = [
        pytest.param(kind, id=f"{place}-{kind}", marks=() if (place, kind) in QUICK else (pytest.mark.proof,))
        for kind in KINDS
    ]
    return pytest.mark.parametrize("kind", made)


@contextmanager
def holding_back(cell: Cell, table: str) -> Iterator[Callable[[int], None]]:
    """Let nobody write into ``table``; yields what kills a worker (by process) once it waits to do so."""
    with psycopg.connect(support.server().admin_url(cell.stack.database.name)) as connection:
        connection.execute(f"LOCK TABLE {table} IN SHARE MODE")  # type: ignore[arg-type]

        def die(pid: int) -> None:
            waiting = until(lambda: waiting_for(cell.stack, table), 10, f"the worker waits for {table}")
            cell.now()
            kill(pid)
            # The server may have its next statements already, the commit too: the connection ends with the worker.
            connection.execute("SELECT pg_terminate_backend(one) FROM unnest(%s::int[]) one", [waiting])
            until(lambda: not {*waiting} & {*waiting_for(cell.stack, table)}, 10, "its connection is gone")

        try:
            yield die
        finally:
            connection.rollback()


def kill(pid: int) -> None:
    """End a worker process at once."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), 10, "the worker is gone")


def call_waits(cell: Cell, **manner: str) -> int:
    """Tell the shop to hang, start the run, and return the rule once the call is there."""
    rule = cell.shop.tell(cell.target, cell.order, **manner)
    cell.start()
    until(lambda: cell.shop.hits(rule), 20, "the call")
    return rule


@cells("before_call")
@pytest.mark.req("C4.4")
def test_before_the_call(cell_of: CellOf, kind: str) -> None:
    """The worker dies with its intent unwritten: nothing was sent, so the step is simply done again.

    A human-only action too: no operation row proves that nothing left, so there is no doubt for a person to settle.
    """
    cell = cell_of("before_call", kind)
    if not cell.writes:
        _before_a_read(cell)
        return
    cell.register()
    with holding_back(cell, "qd_operation") as die:
        cell.start()
        die(pid_running(cell))
    cell.settle(Expected("completed", 1, "controlled retry", 1))


def _before_a_read(cell: Cell) -> None:
    """A read has no intent: its worker dies while the other side does not take its connection yet."""
    with Gate(cell.shop.port) as gate:
        cell.port = gate.port
        cell.register()
        cell.start()
        pid = pid_running(cell)
        cell.now()
        kill(pid)
        assert cell.shop.calls(cell.order) == []
        gate.let_in()
        cell.settle(READ)
        assert len(cell.shop.calls(cell.order)) == 1


@cells("delivered_no_receipt")
@pytest.mark.req("B4.4", "C3.6")
def test_delivered_without_a_receipt(cell_of: CellOf, kind: str) -> None:
    """The request arrived and was lost there; all that is known is that no answer came."""
    cell = cell_of("delivered_no_receipt", kind)
    cell.register()
    cell.shop.tell(cell.target, cell.order, before="drop")
    cell.now()
    cell.start()
    cell.settle(UNCERTAIN_AND_ABSENT[kind])


@cells("downstream_committed")
@pytest.mark.req("B4.4")
def test_downstream_committed(cell_of: CellOf, kind: str) -> None:
    """The effect is there, its receipt is not."""
    cell = cell_of("downstream_committed", kind)
    cell.register()
    cell.shop.tell(cell.target, cell.order, after="drop")
    cell.now()
    cell.start()
    cell.settle(UNCERTAIN_AND_APPLIED[kind])


@cells("during_checkpoint")
@pytest.mark.req("C4.2", "C4.3")
def test_during_the_checkpoint(cell_of: CellOf, kind: str) -> None:
    """The answer is in hand and the worker dies while it writes the checkpoint."""
    cell = cell_of("during_checkpoint", kind)
    cell.register()
    rule = call_waits(cell, after="hang")
    pid = pid_running(cell)
    with holding_back(cell, "qd_checkpoint") as die:
        cell.shop.release(rule)
        die(pid)
    cell.settle(UNCERTAIN_AND_APPLIED[kind])


@cells("callback_late")
@pytest.mark.req("A6.3", "C3.6")
def test_the_callback_comes_late(cell_of: CellOf, kind: str, shop_may_call_back: None) -> None:
    """Applied, the receipt lost; the shop reports twice when nobody waits for that call any more."""
    cell = cell_of("callback_late", kind)
    cell.register(config={"callback": True})
    cell.shop.tell(cell.target, cell.order, after="drop", callbacks=2, callback_s=1.5)
    cell.now()
    cell.start()
    assert cell.run_id is not None
    run_id = cell.run_id
    until(lambda: cell.desk.events(run_id, "CALLBACK_RECEIVED"), 20, "the callback")
    cell.settle(UNCERTAIN_AND_APPLIED[kind])
    (told,) = cell.desk.events(run_id, "CALLBACK_RECEIVED")
    assert (told.payload["late"], told.to_status) == (True, None), "kept once, and it moved nothing"
    assert told.payload["status"] == "succeeded"


@cells("lease_lost")
@pytest.mark.req("C2.9", "A6.2")
def test_the_lease_is_lost(cell_of: CellOf, kind: str) -> None:
    """Applied; the worker is stopped until its lease is over and goes on when the matter is decided."""
    cell = cell_of("lease_lost", kind)
    cell.register()
    rule = call_waits(cell, after="hang")
    with frozen(pid_running(cell)):
        cell.now()
        cell.shop.release(rule)
        cell.settle(UNCERTAIN_AND_APPLIED[kind])
    assert cell.run_id is not None
    run_id = cell.run_id
    (late,) = until(lambda: cell.desk.events(run_id, "STALE_SUBMIT"), 20, "the stopped worker reports")
    assert late.to_status is None
    assert cell.effects() == UNCERTAIN_AND_APPLIED[kind].effects
    assert cell.desk.run(run_id).status == UNCERTAIN_AND_APPLIED[kind].status


@cells("version_migration")
@pytest.mark.req("C4.7", "C4.8", "C4.4")
def test_the_version_moves_on(cell_of: CellOf, kind: str) -> None:
    """A new workflow version lands while the outcome is open.

    The run ends under the version and manifest it began with; the same intent in a new run finds the ledger's answer.
    """
    cell = cell_of("version_migration", kind)
    cell.register()
    cell.shop.tell("query", None, times=None, before="answer", status=503)
    if cell.writes:
        cell.shop.tell(cell.target, cell.order, after="drop")
        run_id = cell.start()
        cell.desk.wait_step(run_id, "act", "unknown")
    else:
        call_waits(cell, before="swallow")
        assert cell.run_id is not None
        run_id = cell.run_id
    before = cell.desk.run(run_id)
    cell.now()
    cell.desk.register(cell.spec(description="the second version"))
    cell.shop.behave()
    if kind == "query_no_retry":
        cell.shop.tell("refund", cell.order, times=None, deduplicate=False)
    cell.settle(UNCERTAIN_AND_APPLIED[kind])
    after = cell.desk.run(run_id)
    assert (after.workflow_version_id, after.manifest_id) == (before.workflow_version_id, before.manifest_id)
    second = cell.desk.submit(cell.flow, {"order_id": cell.order})
    newer = cell.desk.run(second)
    assert newer.workflow_version_id != after.workflow_version_id
    assert newer.manifest_id != after.manifest_id
    if kind == "human_only":
        until(lambda: cell.desk.events(second, "STEP_YIELDED"), 20, "it waits for the person's answer")
    else:
        assert cell.desk.wait(second).status == "completed"
    assert cell.effects() == UNCERTAIN_AND_APPLIED[kind].effects


@cells("frozen_before_first_byte")
@pytest.mark.req("C2.9", "C3.3")
def test_frozen_between_sent_and_the_first_byte(cell_of: CellOf, kind: str) -> None:
    """`sent` is committed, the connection not yet made, the worker stopped; it goes on when others have decided."""
    cell = cell_of("frozen_before_first_byte", kind)
    with Gate(cell.shop.port) as gate:
        cell.port = gate.port
        cell.register()
        run_id = cell.start()
        pid = pid_running(cell)
        if cell.writes:
            until(lambda: (o := cell.operation()) is not None and o.status == "sent", 10, "sent is committed")
        with frozen(pid):
            cell.now()
            until(lambda: cell.desk.events(run_id, "STEP_UNKNOWN"), 15, "the lease is over")
            assert cell.shop.calls(cell.order) == []
            gate.let_in()
            cell.settle(UNCERTAIN_AND_ABSENT[kind])
        until(lambda: cell.desk.events(run_id, "STALE_SUBMIT"), 20, "the stopped worker reports")
        assert cell.effects() == UNCERTAIN_AND_ABSENT[kind].effects


@pytest.mark.req("C4.5", "B9.2")
def test_an_effect_found_again_is_undone_when_what_follows_fails(cell_of: CellOf) -> None:
    """The receipt is lost, the effect is found by its key, and a later step fails under the policy `compensate`."""
    cell = cell_of("compensated", "compensable")
    cell.register()
    cell.call["compensation"] = {"input": {"refund_id": {"$": "operation.output.refund_id"}}}
    fails = {"tool": "core.fail@1", "input": {"error_class": "business"}}
    cell.desk.register(cell.spec(last=fails, defaults={"on_failure": "compensate"}))
    cell.shop.tell(cell.target, cell.order, after="drop")
    cell.now()
    cell.start()
    cell.settle(Expected("failed", 1, "compensated", 1))
    assert len(cell.shop.effects(cell.order, "undo")) == 1


@pytest.mark.req("A9.2", "B4.4")
def test_an_effect_found_again_lets_nothing_follow_while_the_run_is_paused(cell_of: CellOf) -> None:
    """What became of the effect is learned under the pause too; the run stands until a person resumes it."""
    cell = cell_of("paused", "idempotent")
    cell.register()
    cell.shop.tell("query", None, times=None, before="answer", status=503)
    cell.shop.tell(cell.target, cell.order, after="drop")
    run_id = cell.start()
    cell.desk.wait_step(run_id, "act", "unknown")
    pause_run(actor=cell.desk.actor, run_id=run_id, reason="let us look at it")
    cell.now()
    cell.shop.behave()
    cell.desk.wait_step(run_id, "act", "succeeded")
    cell.settle(Expected("paused", 1, "paused", 1))
    assert cell.desk.step(run_id, "last").attempt == 0
    resume_run(actor=cell.desk.actor, run_id=run_id, reason="it is as it should be")
    assert cell.desk.wait(run_id).status == "completed"
    assert cell.effects() == 1
