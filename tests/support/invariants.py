"""What must hold of a tenant's rows whatever happened to the processes: checked after every test with real workers."""

from __future__ import annotations

import uuid
from typing import Any

from runtime.queries.invariants import breaches_of
from runtime.store.tx import tenant_tx

# One statement each, returning what is wrong; written apart from `manage.py invariants`, which is asked as well.
_CHECKS = {
    "run_seq is gapless and unique": """
        SELECT r.id, r.seq, count(e.seq), max(e.seq) FROM qd_run r LEFT JOIN qd_event e ON e.run_id = r.id
        GROUP BY r.id, r.seq HAVING count(e.seq) <> r.seq OR coalesce(max(e.seq), 0) <> r.seq""",
    "the run's counters are those of its steps": """
        SELECT r.id, r.n_steps, r.n_live, r.n_unknown, r.n_open, count(s.id) FROM qd_run r
        JOIN qd_step s ON s.run_id = r.id AND NOT s.superseded GROUP BY r.id
        HAVING r.n_steps <> count(s.id) OR r.n_live <> count(*) FILTER (WHERE s.status IN ('queued', 'running'))
          OR r.n_unknown <> count(*) FILTER (WHERE s.status = 'unknown')
          OR r.n_open <> count(*) FILTER (WHERE s.status IN ('waiting', 'queued', 'running', 'hold', 'unknown'))""",
    "open operations are counted": """
        SELECT r.id, r.n_open_operations, count(o.id) FROM qd_run r LEFT JOIN qd_operation o ON o.run_id = r.id
          AND o.status IN ('intended', 'sent', 'unknown', 'needs_human', 'partially_applied', 'compensating',
                           'compensation_failed')
        GROUP BY r.id HAVING r.n_open_operations <> count(o.id)""",
    "a step has the status its last move gave it": """
        SELECT s.id, s.status, e.to_status FROM qd_step s
        JOIN LATERAL (SELECT to_status FROM qd_event e WHERE e.run_id = s.run_id AND e.step_id = s.id
                        AND e.to_status IS NOT NULL AND e.cause IS DISTINCT FROM 'operation'
                      ORDER BY seq DESC LIMIT 1) e ON true
        WHERE s.status <> e.to_status""",
    "attempts are numbered and ended": """
        SELECT s.id, s.status, s.attempt, count(a.number), count(*) FILTER (WHERE a.finished_at IS NULL)
        FROM qd_step s LEFT JOIN qd_attempt a ON a.run_id = s.run_id AND a.step_id = s.id
        GROUP BY s.id HAVING count(a.number) <> s.attempt
          OR count(a.number) FILTER (WHERE a.finished_at IS NULL) <> (s.status = 'running')::int""",
    "a succeeded step has its one checkpoint": """
        SELECT s.id, s.node FROM qd_step s LEFT JOIN qd_checkpoint c
          ON c.run_id = s.run_id AND c.node = s.node AND c.execution_version = s.execution_version
        WHERE s.status = 'succeeded' AND c.step_id IS DISTINCT FROM s.id""",
    "an unknown effect has a next query or an owner": """
        SELECT o.id, o.business_key FROM qd_operation o JOIN qd_run r ON r.id = o.run_id
        WHERE o.status = 'unknown' AND o.next_query_at IS NULL AND r.attention IS NULL""",
    "a run that needs attention has owner, evidence and due date": """
        SELECT r.id FROM qd_run r WHERE r.status = 'needs_attention'
          AND (r.attention IS NULL OR NOT r.attention ?& ARRAY['owner', 'evidence', 'due'])""",
    "no run is completed while an effect is open": """
        SELECT r.id, o.id FROM qd_run r JOIN qd_operation o ON o.run_id = r.id
        JOIN qd_step s ON s.id = o.step_id AND s.kind <> 'compensation'
        WHERE r.status = 'completed' AND o.status IN ('intended', 'sent', 'unknown', 'needs_human')""",
    "a send under one key is not repeated without absence": """
        SELECT o.id, o.business_key, o.sends, count(e.seq) FROM qd_operation o
        LEFT JOIN qd_event e ON e.run_id = o.run_id AND e.type = 'OPERATION_ABSENT'
          AND e.payload->>'operation_id' = o.id::text
        GROUP BY o.id HAVING o.sends > 1 + count(e.seq)""",
    "a run at an end has no open step": """
        SELECT s.id, s.status, r.status FROM qd_step s JOIN qd_run r ON r.id = s.run_id
        WHERE r.finished_at IS NOT NULL AND NOT s.superseded AND s.kind NOT LIKE 'compensation%'
          AND s.status IN ('waiting', 'queued', 'running', 'hold', 'unknown')""",
}
_AT_REST = {
    "no step runs without a living session": """
        SELECT s.id, s.node FROM qd_step s LEFT JOIN qd_worker_session w ON w.id = s.worker_session_id
        WHERE s.status = 'running' AND (w.id IS NULL OR w.ended_at IS NOT NULL)""",
    "a step whose inputs are decided does not wait for them": """
        SELECT s.id, s.node FROM qd_step s JOIN qd_run r ON r.id = s.run_id
        WHERE s.status = 'waiting' AND s.cause IS NULL AND s.deps_left = 0 AND NOT s.superseded
          AND r.finished_at IS NULL""",
}


def problems(tenant_id: uuid.UUID, *, at_rest: bool = True, fold: int = 200) -> list[str]:
    """Return what is wrong with a tenant's rows, as lines: by the statements above, and by the product's own search.

    ``fold`` bounds how many runs are rebuilt from their events.
    """
    found = []
    with tenant_tx(tenant_id) as tx:
        for name, query in {**_CHECKS, **(_AT_REST if at_rest else {})}.items():
            rows: list[Any] = tx.conn.execute(query.replace("%", "%%")).fetchall()
            found += [f"{name}: {row}" for row in rows[:5]]
    for number, rows in breaches_of(tenant_id, sample=fold):
        found += [f"invariant {number}: {where} {problem}" for where, problem in rows[:5]]
    return found


def check(tenant_id: uuid.UUID, **options: Any) -> None:
    """Raise AssertionError naming every broken invariant."""
    assert not (found := problems(tenant_id, **options)), "\n".join(found)
