-- name: live_heads
-- How far the runs that somebody watches have come.
SELECT id, seq, status FROM qd_run WHERE id = ANY(%s);

-- name: live_run
SELECT id, status, reason, version, seq, paused, cancel_requested, started_at, finished_at, deadline
FROM qd_run WHERE id = %s;

-- name: live_snapshot
-- The run and all its steps, in one statement and so of one moment; ``since`` is when a hold or a doubt began.
SELECT r.status AS run_status, r.reason AS run_reason, r.version AS run_version, r.seq AS run_seq,
  r.paused AS run_paused, r.cancel_requested AS run_cancel_requested, r.started_at AS run_started_at,
  r.finished_at AS run_finished_at, r.deadline AS run_deadline, qd_now() AS now,
  coalesce((SELECT min(e.seq) FROM qd_event e WHERE e.run_id = r.id), r.seq + 1) AS first_seq, s.*, e.since
FROM qd_run r LEFT JOIN (SELECT {s.step} FROM qd_step s WHERE s.run_id = %(run)s AND NOT s.superseded) s ON true
  LEFT JOIN (SELECT step_id, max(occurred_at) AS since FROM qd_event
             WHERE run_id = %(run)s AND to_status IN ('hold', 'unknown') GROUP BY step_id) e ON e.step_id = s.id
WHERE r.id = %(run)s;

-- name: live_patch
-- The same of the steps that events after a seq tell of. A run's seq is given out under its lock and commits in order,
-- so nothing at or below the seq read here can still be missing.
SELECT r.status AS run_status, r.reason AS run_reason, r.version AS run_version, r.seq AS run_seq,
  r.paused AS run_paused, r.cancel_requested AS run_cancel_requested, r.started_at AS run_started_at,
  r.finished_at AS run_finished_at, r.deadline AS run_deadline, qd_now() AS now,
  coalesce((SELECT min(e.seq) FROM qd_event e WHERE e.run_id = r.id), r.seq + 1) AS first_seq, s.*, e.since
FROM qd_run r
  LEFT JOIN LATERAL (SELECT step_id, max(occurred_at) FILTER (WHERE to_status IN ('hold', 'unknown')) AS since
                     FROM qd_event WHERE run_id = r.id AND seq > %(after)s AND step_id IS NOT NULL
                     GROUP BY step_id) e ON true
  LEFT JOIN LATERAL (SELECT {s.step} FROM qd_step s WHERE s.id = e.step_id AND NOT s.superseded) s ON true
WHERE r.id = %(run)s;

-- name: live_since
-- When each hold and each doubt of a run began, as of a seq.
SELECT step_id, max(occurred_at) FROM qd_event
WHERE run_id = %s AND seq <= %s AND to_status IN ('hold', 'unknown') GROUP BY step_id;

-- name: approval_states
-- How requests stand that somebody waits for.
SELECT id, state FROM qd_approval WHERE id = ANY(%s::uuid[]);
