-- name: rebuild_rows
-- A run and every execution version of its steps in one statement: one snapshot, complete up to the run's seq.
SELECT {r.run}, {s.step} FROM qd_run r LEFT JOIN qd_step s ON s.run_id = r.id WHERE r.id = %s;

-- name: rebuild_operations
SELECT id, status FROM qd_operation WHERE run_id = %s ORDER BY id;

-- name: rebuild_head
SELECT seq FROM qd_run WHERE id = %s;

-- name: rebuild_events
SELECT seq, type, step_id, node, execution_version, attempt, owner_epoch, version, from_status, to_status, cause, reason,
  payload, occurred_at, actor
FROM qd_event WHERE run_id = %s AND seq > %s AND seq <= %s ORDER BY seq LIMIT %s;

-- name: replay_range
-- Which of a run's events are kept, up to a seq.
SELECT min(seq), max(seq), count(*) FROM qd_event WHERE run_id = %s AND seq <= %s;
