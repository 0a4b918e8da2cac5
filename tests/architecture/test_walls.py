"""What runs with the rights of all tenants is the web's only where it asks for it: strangers' texts come in there."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from approvals import duties
from tests.support import db as support

pytestmark = [pytest.mark.req("A10.1"), pytest.mark.django_db(transaction=True)]

# The web asks these: who somebody is, how the engine does, how far the tenant's own steps are, what stands still.
ASKED = {
    "qd_all_tenants()",
    "qd_backlog(integer)",
    "qd_memberships_of(integer)",
    "qd_oldest_queued()",
    "qd_oldest_unsent()",
    "qd_pool_queues(integer)",
    "qd_queue_depth()",
    "qd_queue_depth(integer)",
    "qd_running_steps()",
    "qd_standing_stops()",
    "qd_steps_in_hand()",
    "qd_token_by_hash(bytea)",
}
# Only duties ask these; they return ids and no more. None joins them: what is new for a duty is the worker's alone.
OLD = {
    "qd_blocked_gates(uuid,integer)",
    "qd_blocked_tenants(uuid)",
    "qd_due_bulk_repairs(integer)",
    "qd_due_cancels(integer)",
    "qd_due_deadlines(integer)",
    "qd_due_messages(integer)",
    "qd_due_queries(integer)",
    "qd_due_timers(integer)",
    "qd_forgetful_sessions(uuid[],timestamp with time zone)",
    "qd_kept_signals(uuid,integer)",
    "qd_last_stop_end()",
    "qd_next_timer()",
    "qd_orphaned_steps(integer)",
    "qd_overdue_signals(integer)",
    "qd_ready_tenants(text[])",
    "qd_steps_held_by(uuid)",
    "qd_stopped_steps(integer)",
    "qd_stranded_runs(double precision,integer)",
}


def definers(database: support.Database, role: str) -> set[str]:
    """Return the functions that run with another's rights and that ``role`` may call."""
    with database.connect() as connection:
        found = connection.execute(
            "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
            " WHERE n.nspname = 'public' AND p.prosecdef AND has_function_privilege(%s, p.oid, 'EXECUTE')",
            [role],
        )
        return {row[0] for row in found}


def test_the_web_calls_no_definer_function_but_those_of_the_list(test_database):
    assert definers(test_database, "qd_web") == ASKED | OLD


def test_the_worker_may_call_what_its_duties_ask(test_database):
    wanted = {f"qd_{name}(integer)" for name in ("lapsed_grants", "ended_approvals", "idle_approvals", "overdue_cases")}
    assert wanted | OLD <= definers(test_database, "qd_worker")


@pytest.mark.parametrize("duty", [duties.expire_requests, duties.remind, duties.close_idle])
def test_the_web_may_not_ask_about_every_tenants_requests(db, duty: Callable[[], int]):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        duty()


@pytest.mark.parametrize("role", ["qd_web", "qd_worker"])
def test_a_role_reads_every_column_of_a_worker_session_but_what_is_in_its_hands(test_database, role: str):
    with test_database.connect() as connection:
        found = connection.execute(
            "SELECT attname::text, has_column_privilege(%s, attrelid, attnum, 'SELECT') FROM pg_attribute"
            " WHERE attrelid = 'qd_worker_session'::regclass AND attnum > 0 AND NOT attisdropped",
            [role],
        ).fetchall()
    assert {name for name, granted in found if not granted} == {"in_hand"}
