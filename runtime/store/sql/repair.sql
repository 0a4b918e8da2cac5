-- name: overdue_cases
SELECT tenant_id, id FROM qd_overdue_cases(%s);

-- name: settled_cases
SELECT tenant_id, id FROM qd_settled_cases(%s);

-- name: stuck_runs
-- Open runs in which nothing can move and that no open case is about, though their last event is older than so many
-- seconds; the oldest first. A run that a person paused waits for that person.
SELECT r.id, r.seq, r.status, coalesce(e.occurred_at, r.created_at) AS moved_at,
  (SELECT array_agg(s.node) FROM (SELECT node FROM qd_step WHERE run_id = r.id AND NOT superseded
     AND status IN ('waiting', 'queued', 'unknown') ORDER BY id LIMIT 10) s) AS steps
FROM qd_run r LEFT JOIN qd_event e ON e.run_id = r.id AND e.seq = r.seq
WHERE r.status NOT IN ('completed', 'partially_completed', 'failed', 'cancelled') AND NOT r.paused
  AND coalesce(e.occurred_at, r.created_at) < qd_now() - make_interval(secs => %(age)s)
  AND NOT EXISTS (SELECT FROM qd_step s WHERE s.run_id = r.id AND NOT s.superseded AND (s.status IN ('running', 'hold')
    OR (s.status = 'queued' AND (s.claimable OR s.hold_requested OR s.blocked_on IS NOT NULL))
    OR (s.status = 'waiting' AND s.not_before IS NOT NULL)))
  AND NOT EXISTS (SELECT FROM qd_operation o WHERE o.run_id = r.id
    AND (o.status IN ('intended', 'sent', 'compensating') OR (o.status = 'unknown' AND o.next_query_at IS NOT NULL)))
  AND NOT EXISTS (SELECT FROM qd_case c WHERE c.run_id = r.id AND c.state <> 'resolved')
ORDER BY r.created_at LIMIT %(most)s;

-- name: standstills_over
-- Cases about runs at a standstill that nobody has taken, and whose run has ended or can move again.
SELECT c.id FROM qd_case c JOIN qd_run r ON r.id = c.run_id
WHERE c.state = 'open' AND c.kind = 'stuck' AND c.subject_kind = 'run'
  AND (r.status IN ('completed', 'partially_completed', 'failed', 'cancelled') OR r.paused
    OR EXISTS (SELECT FROM qd_step s WHERE s.run_id = r.id AND NOT s.superseded AND (s.status IN ('running', 'hold')
      OR (s.status = 'queued' AND (s.claimable OR s.hold_requested OR s.blocked_on IS NOT NULL))
      OR (s.status = 'waiting' AND s.not_before IS NOT NULL)))
    OR EXISTS (SELECT FROM qd_operation o WHERE o.run_id = r.id
      AND (o.status IN ('intended', 'sent', 'compensating') OR (o.status = 'unknown' AND o.next_query_at IS NOT NULL))))
ORDER BY c.id LIMIT %s;

-- name: run_moves
-- Whether a run has ended or can move again, as for all of them in standstills_over.
SELECT r.status IN ('completed', 'partially_completed', 'failed', 'cancelled') OR r.paused
  OR EXISTS (SELECT FROM qd_step s WHERE s.run_id = r.id AND NOT s.superseded AND (s.status IN ('running', 'hold')
    OR (s.status = 'queued' AND (s.claimable OR s.hold_requested OR s.blocked_on IS NOT NULL))
    OR (s.status = 'waiting' AND s.not_before IS NOT NULL)))
  OR EXISTS (SELECT FROM qd_operation o WHERE o.run_id = r.id
    AND (o.status IN ('intended', 'sent', 'compensating') OR (o.status = 'unknown' AND o.next_query_at IS NOT NULL)))
FROM qd_run r WHERE r.id = %s;

-- name: operation_lock
-- One operation by its id, locked after its run and steps (engine.md 1).
SELECT {operation}, response FROM qd_operation WHERE tenant_id = %s AND id = %s FOR UPDATE;

-- name: epoch_line
-- Who owned which attempt of a step, when, and what became of it.
SELECT a.number, a.owner_epoch, a.worker_session_id, w.host, w.pid, a.started_at, a.finished_at, a.outcome
FROM qd_attempt a LEFT JOIN qd_worker_session w ON w.id = a.worker_session_id
WHERE a.run_id = %s AND a.step_id = %s ORDER BY a.number;

-- name: epoch_line_of_steps
-- The same of several steps of a run, each by its name, the newest of all.
SELECT s.node, a.number, a.owner_epoch, a.worker_session_id, w.host, w.pid, a.started_at, a.finished_at, a.outcome
FROM qd_attempt a JOIN qd_step s ON s.id = a.step_id LEFT JOIN qd_worker_session w ON w.id = a.worker_session_id
WHERE a.run_id = %s AND a.step_id = ANY(%s) ORDER BY a.started_at DESC, s.node, a.number DESC LIMIT %s;

-- name: case_steps
-- The steps of a run that a person's claim takes a new epoch on: those that have not ended, but for what undoes an
-- effect; each with the worker that runs it and its lease, those under way first. None in a finished run.
SELECT s.id, s.node, s.status, s.cause, s.owner_epoch, s.attempt, s.execution_version, w.host, w.pid, w.lease_until,
  w.ended_at IS NULL AND w.lease_until > qd_now() AS alive
FROM qd_step s JOIN qd_run r ON r.id = s.run_id
LEFT JOIN qd_worker_session w ON w.id = s.worker_session_id AND s.status = 'running'
WHERE s.run_id = %s AND NOT s.superseded AND s.status IN ('waiting', 'queued', 'running', 'hold', 'unknown')
  AND s.kind NOT IN ('compensation', 'compensation_check')
  AND r.status NOT IN ('completed', 'partially_completed', 'failed', 'cancelled')
ORDER BY s.status <> 'running', s.id LIMIT %s;

-- name: case_step
SELECT s.id, s.node, s.kind, s.status, s.cause, s.version, s.owner_epoch, s.attempt, s.execution_version, s.superseded,
  s.error, s.forced, s.started_at, s.finished_at
FROM qd_step s WHERE s.id = %s;

-- name: case_lease
-- Who runs a step now, and until when its lease holds; nothing where nobody does.
SELECT w.host, w.pid, w.code_version, s.owner_epoch, s.attempt, w.beat_at, w.lease_until,
  w.ended_at IS NULL AND w.lease_until > qd_now() AS alive
FROM qd_step s JOIN qd_worker_session w ON w.id = s.worker_session_id WHERE s.id = %s AND s.status = 'running';

-- name: case_operation
SELECT o.id, o.business_key, o.status, o.version, o.sends, o.external_ref, o.error, o.recovery, o.next_query_at,
  o.intended_at, o.sent_at, o.settled_at, o.attempt, o.owner_epoch, o.execution_version
FROM qd_operation o WHERE o.id = %s;

-- name: case_facets
-- How the open cases that are due first divide.
SELECT kind, count(*) AS total, count(*) FILTER (WHERE due_at <= %(now)s) AS overdue,
  count(*) FILTER (WHERE owner = %(owner)s) AS mine, count(*) FILTER (WHERE owner IS NULL) AS unowned
FROM (SELECT kind, due_at, owner FROM qd_case WHERE state <> 'resolved' ORDER BY due_at, id LIMIT %(bound)s) c
GROUP BY kind ORDER BY kind;

-- name: case_groups
-- The open cases that are due first, by cause, the largest group first.
SELECT fingerprint, kind, tool, error_class, count(*) AS count, min(due_at) AS due_at
FROM (SELECT fingerprint, kind, tool, error_class, due_at FROM qd_case WHERE state <> 'resolved'
  ORDER BY due_at, id LIMIT %(bound)s) c
GROUP BY fingerprint, kind, tool, error_class ORDER BY count DESC, due_at LIMIT %(most)s;

-- name: orders_of_operation
-- The orders to undo an operation, newest first, with the step that works on each; those given up to a moment.
SELECT c.step_id, c.run_id, s.node, s.status, c.tool, c.business_key, c.deadline, c.requested_by, c.requested_at
FROM qd_compensation c LEFT JOIN qd_step s ON s.id = c.step_id
WHERE c.operation_id = %(operation)s AND c.requested_at <= %(until)s ORDER BY c.requested_at DESC, c.id DESC;

-- name: run_unlocked
-- A run as it stands, to foresee from; who changes it locks it.
SELECT {run} FROM qd_run WHERE id = %s;

-- name: due_bulk_repairs
SELECT tenant_id, id FROM qd_due_bulk_repairs(%s);

-- name: queue_age
-- How long the step that waits longest for a worker has waited, over all tenants, in seconds.
SELECT coalesce(extract(epoch FROM qd_now() - qd_oldest_queued()), 0)::float8;
