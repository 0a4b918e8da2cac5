"""Every pair of states, allowed or refused as the design says: through the machine, and through raw SQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from runtime.kernel.errors import MoveRefused
from runtime.kernel.ids import uuid7
from runtime.machine import law
from runtime.machine.apply import move_run, move_step
from runtime.machine.operations import OperationState, move_operation
from runtime.machine.page import law_page
from runtime.machine.rows import RunState, StepState
from tests.machine import law_by_hand as hand
from tests.support.engine import past_every_guard, sweep
from tests.support.specs import tool, workflow

pytestmark = [pytest.mark.req("A5.1", "C8.3")]

STEP = hand.step_moves()
RUN = hand.pairs(hand.RUN_STATUSES, hand.RUN_MOVES)
OPERATION = hand.pairs(hand.OPERATION_STATUSES, hand.OPERATION_MOVES)
EVERYBODY = set(hand.ROLES.values())
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def run_state(status: str = "running") -> RunState:
    ended = NOW if status in ("completed", "partially_completed", "failed", "cancelled") else None
    run = RunState(
        uuid7(), uuid7(), uuid7(), uuid7(), status, "", 1, 0, 0, None, False, False, None,
        0, 0, 0, 0, 0, 0, 0, 0, 0, NOW, NOW, ended,
    )  # fmt: skip
    run.now = NOW
    return run


def step_state(run: RunState, status: str, **more: Any) -> StepState:
    step = StepState(
        uuid7(), run.id, "n", "tool", 1, False, status, "user" if status == "skipped" else None, 3, 2, 1, 0, "default",
        True, None, None, 0, 0, 0, 0, 0, False, False, None, None, NOW, None, None, None,
    )  # fmt: skip
    for name, value in more.items():
        setattr(step, name, value)
    return step


# -- the machine


def test_all_hundred_pairs_are_written_out():
    assert len(STEP) == 100
    assert sum(bool(roles) for roles in STEP.values()) == 28


@pytest.mark.parametrize(("source", "target"), STEP, ids=lambda name: name)
def test_a_step_moves_in_the_machine_as_the_law_says(source, target):
    roles = STEP[source, target]
    for role in EVERYBODY:
        run = run_state()
        step = step_state(run, source)
        if role in roles or (roles == {"rerun"} and role == "operator"):
            move_step(run, step, target, by=role, cause="user" if target == "skipped" else None)
            assert (step.status, step.version) == (target, 4)
            assert [(e[9], e[10]) for e in run.events] == [(source, target)]
        else:
            with pytest.raises(MoveRefused) as refusal:
                move_step(run, step, target, by=role)
            assert (step.status, step.version, run.seq, run.events) == (source, 3, 0, [])
            assert refusal.value.extra == {"current_status": source, "current_version": 3}


@pytest.mark.parametrize(("source", "target"), RUN, ids=lambda name: name)
def test_a_run_moves_in_the_machine_along_the_law(source, target):
    moved = set()
    for role in EVERYBODY:
        run = run_state(source)
        path = [source]
        try:
            move_run(run, target, by=role)
            path += [event[10] for event in run.events]
        except MoveRefused:
            assert (run.status, run.version, run.events) == (source, 1, [])
            continue
        moved.add(role)
        assert all(RUN[pair] for pair in pairwise(path))
        assert path[-1] == run.status == target
        # It passes only through what the run has been anyway: queued, running.
        assert set(path[1:-1]) <= {"queued", "running"}
        assert run.version == 1 + len(run.events)
        if RUN[source, target]:
            assert path == [source, target]
    assert bool(moved) >= bool(RUN[source, target])
    # A repair alone takes a run out of a person's hands; a cancel alone ends what was only accepted.
    if source == "needs_attention":
        assert moved <= {"reconciler"}
    if (source, target) == ("accepted", "cancelling"):
        assert moved == {"cancel"}
    assert not moved & {"owner", "admin"}


def operation_state(status: str) -> OperationState:
    return OperationState(
        uuid7(), "k", b"", uuid7(), "human", uuid7(), uuid7(), 1, 1, 1, status, 1, 1, None, None, None, None, NOW, NOW,
        None,
    )  # fmt: skip


@pytest.mark.parametrize(("source", "target"), OPERATION, ids=lambda name: name)
def test_an_operation_moves_in_the_machine_as_the_law_says(source, target):
    moved = []
    for role in EVERYBODY:
        run, operation = run_state(), operation_state(source)
        try:
            move_operation(run, None, operation, target, by=role)
        except MoveRefused:
            assert (operation.status, operation.version, run.events) == (source, 1, [])
        else:
            moved.append(role)
            assert (operation.status, operation.version, len(run.events)) == (target, 2, 1)
    assert bool(moved) == OPERATION[source, target]
    assert source not in ("needs_human", "compensation_failed") or set(moved) <= {"reconciler"}


@pytest.mark.parametrize("status", ["completed", "partially_completed", "failed", "cancelled"])
def test_an_ended_run_moves_no_step_but_by_an_admins_force(status):
    for source, target in STEP:
        for role in STEP[source, target] - {"rerun"}:
            run = run_state(status)
            step = step_state(run, source)
            if target == "mark_successed":
                move_step(run, step, target, by=role)
                assert run.status == status
            else:
                with pytest.raises(MoveRefused, match="never left"):
                    move_step(run, step, target, by=role)


def test_a_superseded_step_moves_nowhere():
    for source, target in STEP:
        for role in EVERYBODY:
            run = run_state()
            with pytest.raises(MoveRefused):
                move_step(run, step_state(run, source, superseded=True), target, by=role)


def test_the_generated_page_shows_the_law():
    page = law_page()
    for move in [*law.STEP.values(), *law.RUN.values(), *law.OPERATION.values()]:
        assert move.why.replace("'", "&#x27;") in page
    assert page.count('class="yes"') == len(law.STEP) + len(law.RUN) + len(law.OPERATION)


# -- the database's guard


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest, database: Any) -> dict[str, Any]:
    """One run with one step and one operation, put into each status past the guard before each move."""
    from tests.support.engine import Engine
    from tests.support.factories import make_tenant

    engine = Engine(make_tenant())
    run = engine.submit(workflow(tool("a")))
    engine.claim()
    ids = {"tenant": engine.tenant.id, "run": run, "step": engine.step(run, "a").id, "operation": uuid7()}
    with past_every_guard(database) as connection:
        connection.execute(
            """INSERT INTO qd_operation (id, tenant_id, business_key, payload, payload_sha256, tool_version_id,
                 recovery, run_id, step_id, execution_version, attempt, owner_epoch, status, version, sends, requester,
                 intended_at, sent_at)
               VALUES (%(operation)s, %(tenant)s, 'k', '', '', %(run)s, 'human', %(run)s, %(step)s, 1, 1, 1, 'intended',
                 1, 0, 'x', now(), now())""",
            ids,
        )
        connection.execute(
            """INSERT INTO qd_checkpoint (run_id, node, execution_version, tenant_id, step_id, attempt, owner_epoch,
                 manifest_id, run_seq, kind, created_at)
               VALUES (%(run)s, 'a', 1, %(tenant)s, %(step)s, 1, 1, %(run)s, 1, 'observation', now())""",
            ids,
        )
        yield {**ids, "superuser": connection}
    sweep(database, engine.tenant.id)


@pytest.fixture(params=["qd_web", "qd_worker", None], ids=["web", "worker", "owner"])
def role(request: pytest.FixtureRequest, rows: dict[str, Any], database: Any) -> Iterator[psycopg.Connection[Any]]:
    with database.connect(request.param) as connection:
        connection.execute("SELECT set_config('qd.tenant', %s, false)", [str(rows["tenant"])])
        yield connection


def outcome(connection: psycopg.Connection[Any], statement: str, values: list[Any]) -> str:
    """Return "moved", or the SQLSTATE of the refusal."""
    try:
        assert connection.execute(statement, values).rowcount == 1
    except psycopg.Error as problem:
        return problem.sqlstate or ""
    return "moved"


def in_place(source: str, target: str) -> bool:
    return bool(STEP[source, target] - {"rerun"})


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("source", hand.STATUSES)
def test_the_guard_lets_a_step_move_as_the_law_says(rows, role, source):
    found = {}
    for target in hand.STATUSES:
        rows["superuser"].execute(
            "UPDATE qd_step SET status = %s, cause = 'user', version = 5, owner_epoch = 5 WHERE id = %s",
            [source, rows["step"]],
        )
        statement = "UPDATE qd_step SET status = %s, version = 6, owner_epoch = 6 WHERE id = %s"
        found[target] = outcome(role, statement, [target, rows["step"]])
    expected = {target: "moved" if in_place(source, target) or target == source else "QD001" for target in found}
    assert found == expected


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("source", hand.RUN_STATUSES)
def test_the_guard_lets_a_run_move_as_the_law_says(rows, role, source):
    found = {}
    for target in hand.RUN_STATUSES:
        rows["superuser"].execute(
            "UPDATE qd_run SET status = %s, finished_at = now(), attention = '{}', n_open = 0 WHERE id = %s",
            [source, rows["run"]],
        )
        statement = "UPDATE qd_run SET status = %s, version = version + 1, seq = seq + 1 WHERE id = %s"
        found[target] = outcome(role, statement, [target, rows["run"]])
    assert found == {t: "moved" if RUN[source, t] or t == source else "QD001" for t in found}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("source", hand.OPERATION_STATUSES)
def test_the_guard_lets_an_operation_move_as_the_law_says(rows, role, source):
    found = {}
    for target in hand.OPERATION_STATUSES:
        rows["superuser"].execute("UPDATE qd_operation SET status = %s WHERE id = %s", [source, rows["operation"]])
        statement = "UPDATE qd_operation SET status = %s, version = version + 1 WHERE id = %s"
        found[target] = outcome(role, statement, [target, rows["operation"]])
    assert found == {t: "moved" if OPERATION[source, t] or t == source else "QD001" for t in found}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("status", hand.STATUSES)
def test_the_guard_lets_a_step_begin_where_the_law_says(rows, role, status):
    statement = """INSERT INTO qd_step (id, tenant_id, run_id, node, kind, execution_version, superseded, status, cause,
        version, owner_epoch, attempt, priority, pool, claimable, deps_left, deps_ok, deps_bskip, deps_err, deps_bad,
        hold_requested, forced, worker_session_id, created_at)
      VALUES (%s, %s, %s, %s, 'tool', 1, false, %s, 'user', 1, 0, 0, 0, 'p', false, 0, 0, 0, 0, 0, false, false, %s,
        now())"""
    values = [uuid7(), rows["tenant"], rows["run"], uuid.uuid4().hex, status, uuid7()]
    assert outcome(role, statement, values) == (
        "moved" if status in ("waiting", "queued", "hold", "skipped") else "QD001"
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("step", "status = 'killed', version = 5, owner_epoch = 6"),  # a move counts the version up
        ("step", "status = 'killed', version = 7"),
        ("step", "owner_epoch = 4"),  # the epoch only grows
        ("step", "version = 4"),
        ("step", "node = 'other'"),
        ("step", "execution_version = 2"),
        ("run", "seq = seq - 1"),
        ("run", "status = 'paused', version = version + 1"),  # a move writes an event
        ("run", "status = 'paused', seq = seq + 1"),
        ("run", "manifest_id = id"),
        ("operation", "status = 'sent'"),
        ("operation", "business_key = 'other'"),
        ("operation", "payload_sha256 = '\\x01'"),
    ],
)
def test_the_guard_refuses_what_is_no_move(rows, role, table, change):
    scene = {
        "step": "UPDATE qd_step SET status = 'running', version = 5, owner_epoch = 5, superseded = false WHERE id = %s",
        "run": "UPDATE qd_run SET status = 'running' WHERE id = %s",
        "operation": "UPDATE qd_operation SET status = 'intended' WHERE id = %s",
    }
    rows["superuser"].execute(scene[table], [rows[table]])
    assert outcome(role, f"UPDATE qd_{table} SET {change} WHERE id = %s", [rows[table]]) == "QD001"


@pytest.mark.django_db(transaction=True)
def test_a_superseded_row_is_never_changed(rows, role):
    for status in hand.STATUSES:
        scene = "UPDATE qd_step SET status = %s, cause = 'user', version = 5, superseded = %s WHERE id = %s"
        rows["superuser"].execute(scene, [status, True, rows["step"]])
        for change in ("status = 'mark_successed', version = 6", "deps_ok = 9", "superseded = false"):
            assert outcome(role, f"UPDATE qd_step SET {change} WHERE id = %s", [rows["step"]]) == "QD001"
        rows["superuser"].execute(scene, [status, False, rows["step"]])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("table", ["qd_event", "qd_checkpoint", "qd_audit_entry"])
@pytest.mark.parametrize("act", ["UPDATE {} SET tenant_id = tenant_id", "DELETE FROM {}", "TRUNCATE {}"])
def test_what_is_append_only_is_neither_changed_nor_emptied(rows, role, table, act):
    assert role.execute(f"SELECT count(*) FROM {table}").fetchone() > (0,)
    with pytest.raises(psycopg.Error) as refusal:
        role.execute(act.format(table))
    # By the trigger, or because the role has no such right at all.
    assert refusal.value.sqlstate in ("QD002", "42501")


@pytest.mark.django_db(transaction=True)
def test_the_law_is_readable_where_the_data_is(rows):
    found = set(rows["superuser"].execute("SELECT subject, source, target FROM qd_transition").fetchall())
    for subject, table in (("step", STEP), ("run", RUN), ("operation", OPERATION)):
        assert {(a, b) for kind, a, b in found if kind == subject} == {
            pair for pair, is_move in table.items() if is_move
        }


def test_who_counts_by_cause_counts_the_same_causes():
    """The machine, the fold and the SQL of the invariants each name the causes of a timed wait; they must agree."""
    from runtime.machine.rows import TIMER_CAUSES
    from runtime.queries.fold import TIMERS
    from runtime.store.sqlfile import queries

    assert set(TIMERS) == TIMER_CAUSES
    sql = queries()["invariant_3_counters"]
    listed = sql[sql.index("s.status = 'waiting' AND s.cause IN") :].split("(", 1)[1].split(")", 1)[0]
    assert {part.strip(" '\n") for part in listed.split(",")} == TIMER_CAUSES
