"""Events, attempts and checkpoints lie in one partition a month, by the time in their run's id (engine.md 11, C2.4)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import errors

from runtime.kernel.ids import uuid7
from runtime.store.partitions import PARTITIONED
from runtime.worker.maintenance.storage import ensure_partitions
from tests.support.db import server
from tests.support.engine import Engine, past_every_guard
from tests.support.race import Contender
from tests.support.specs import tool, workflow
from tests.support.workers import until

pytestmark = pytest.mark.req("C1.3")


@pytest.fixture
def engine(fresh_db, tenant) -> Engine:
    """An engine alone in its database."""
    return Engine(tenant)


@pytest.fixture
def run_id(engine) -> uuid.UUID:
    """A run that has ended: each of the tables has rows of it."""
    run_id = engine.submit(workflow(tool("a"), tool("b", "a")))
    engine.finish("a")
    engine.finish("b")
    return run_id


@contextmanager
def superuser(database: Any) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection that sees every tenant's rows, with all guards on."""
    with psycopg.connect(server().admin_url(database.name), autocommit=True) as connection:
        yield connection


def month_of(run_id: uuid.UUID) -> str:
    return f"{datetime.fromtimestamp(int.from_bytes(run_id.bytes[:6]) / 1000, UTC):%Y_%m}"


def at(when: datetime) -> uuid.UUID:
    """Return an id as it would be made ``when``."""
    return uuid.UUID(bytes=int(when.timestamp() * 1000).to_bytes(6) + uuid7().bytes[6:])


def places(database: Any, run_id: uuid.UUID) -> dict[str, set[str]]:
    """Return table → the partitions in which a run's rows lie."""
    with superuser(database) as connection:
        return {
            table: {
                row[0]
                for row in connection.execute(
                    f"SELECT tableoid::regclass::text FROM {table} WHERE run_id = %s", [run_id]
                )
            }
            for table in PARTITIONED
        }


def content(database: Any, run_id: uuid.UUID) -> dict[str, list[str]]:
    """Return table → a run's rows as text, wherever they lie."""
    query = "SELECT t::text FROM {} t WHERE run_id = %s ORDER BY 1"
    with superuser(database) as connection:
        return {table: [row[0] for row in connection.execute(query.format(table), [run_id])] for table in PARTITIONED}


def stray(database: Any, run_id: uuid.UUID, when: datetime) -> uuid.UUID:
    """Write a run's rows once more under an id of another time, as if it had been submitted then."""
    other = at(when)
    with past_every_guard(database) as connection:
        for table in PARTITIONED:
            connection.execute(
                f"INSERT INTO {table} SELECT (jsonb_populate_record(t, jsonb_build_object('run_id', %s::text))).*"
                f" FROM {table} t WHERE run_id = %s",
                [str(other), run_id],
            )
    return other


def in_partitions_of(month: str) -> dict[str, set[str]]:
    return {table: {f"{table}_{month}"} for table in PARTITIONED}


def test_a_runs_rows_lie_in_the_partition_of_its_month(fresh_db, run_id):
    assert places(fresh_db, run_id) == in_partitions_of(month_of(run_id))
    with superuser(fresh_db) as connection:
        plan = "\n".join(
            row[0] for row in connection.execute("EXPLAIN SELECT FROM qd_event WHERE run_id = %s", [run_id])
        )
    assert f"qd_event_{month_of(run_id)}" in plan
    assert "qd_event_default" not in plan, "no other partition is looked into"


def test_months_are_made_ahead_and_no_role_comes_to_them_directly(fresh_db, engine, as_role, clock):
    when = clock.advance(timedelta(days=400))
    with as_role("worker"):
        assert (ensure_partitions(), ensure_partitions()) == (4 * len(PARTITIONED), 0)
    for role in ("qd_web", "qd_worker"):
        with fresh_db.connect(role) as connection:
            for table in PARTITIONED:
                with pytest.raises(errors.InsufficientPrivilege):
                    connection.execute(f"SELECT FROM {table}_{when:%Y_%m}")


def test_what_was_written_before_its_month_was_made_is_moved_into_it(fresh_db, engine, run_id, as_role, clock):
    """Rows of one month of the four; not one is lost or changed, and every guard is on again."""
    month = clock.advance(timedelta(days=400)) + timedelta(days=31)
    late = stray(fresh_db, run_id, month)
    before = content(fresh_db, late)
    assert places(fresh_db, late) == {table: {f"{table}_default"} for table in PARTITIONED}
    assert all(before.values())
    with as_role("worker"):
        assert ensure_partitions() == 4 * len(PARTITIONED)
    assert places(fresh_db, late) == in_partitions_of(f"{month:%Y_%m}")
    assert content(fresh_db, late) == before
    with superuser(fresh_db) as connection:
        for table in PARTITIONED:
            both = [f"{table}_default", f"{table}_{month:%Y_%m}"]
            walls = connection.execute(
                "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE oid = ANY(%s::regclass[])", [both]
            ).fetchall()
            off = connection.execute(
                "SELECT tgname FROM pg_trigger WHERE tgrelid = ANY(%s::regclass[]) AND tgenabled = 'D'", [both]
            ).fetchall()
            assert (walls, off) == ([(True,), (True,)], []), table
        for table in ("qd_event", "qd_checkpoint"):
            with pytest.raises(psycopg.DatabaseError, match="append-only"):
                connection.execute(f"DELETE FROM {table} WHERE run_id = %s", [late])
    engine.check(run_id)


def test_who_writes_while_rows_are_moved_waits_and_is_led_to_the_new_partition(
    fresh_db, engine, run_id, as_role, clock
):
    """A writer of that month has its transaction open, another comes while the rows are to be moved: both commit."""
    month = clock.advance(timedelta(days=400))
    late = stray(fresh_db, run_id, month)

    def write(connection: psycopg.Connection[Any], seq: int) -> None:
        part = f"(jsonb_populate_record(t, '{{\"seq\": {seq}}}')).*"
        connection.execute(f"INSERT INTO qd_event SELECT {part} FROM qd_event t WHERE run_id = %s AND seq = 1", [late])

    def come_late() -> None:
        with superuser(fresh_db) as connection:
            write(connection, 9002)

    with as_role("worker"), psycopg.connect(server().admin_url(fresh_db.name)) as early:
        write(early, 9001)
        maker = Contender(ensure_partitions)
        until(lambda: waiting(fresh_db) == 1, 20, "the duty waits for the open writer")
        second = Contender(come_late)
        until(lambda: waiting(fresh_db) == 2, 20, "a further writer waits for the duty")
        early.commit()
        assert maker.outcome() == 4 * len(PARTITIONED)
        second.outcome()
    assert places(fresh_db, late) == in_partitions_of(f"{month:%Y_%m}")
    with superuser(fresh_db) as connection:
        rows = connection.execute("SELECT seq FROM qd_event WHERE run_id = %s AND seq > 9000 ORDER BY 1", [late])
        assert rows.fetchall() == [(9001,), (9002,)]


def waiting(database: Any) -> int:
    """Return how many sessions of the database wait for a lock."""
    with superuser(database) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    assert row is not None
    return int(row[0])
