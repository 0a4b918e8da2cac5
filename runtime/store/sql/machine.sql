-- name: now
-- What qd_now() answers, without the call: a function over a table is parsed at each use.
SELECT clock_timestamp() + c.offset FROM qd_clock c;

-- name: set_tenant
SELECT set_config('qd.tenant', %s, true);

-- name: set_statement_timeout
SELECT set_config('statement_timeout', %s, true);

-- name: set_lock_timeout
SELECT set_config('lock_timeout', %s, true);

-- name: notify
SELECT pg_notify(%s, %s);

-- name: lock_runs
-- The run rows in the order of engine.md 1; whoever holds a run's row may change its steps.
SELECT {run} FROM qd_run WHERE id = ANY(%s::uuid[]) ORDER BY id FOR NO KEY UPDATE;

-- name: steps_at
-- The current rows of (run, node) pairs; safe to read after lock_runs, frozen until commit.
SELECT {s.step} FROM unnest(%s::uuid[], %s::text[]) u(run_id, node)
  JOIN qd_step s ON s.run_id = u.run_id AND s.node = u.node AND NOT s.superseded;

-- name: steps_of_runs
SELECT {step} FROM qd_step WHERE run_id = ANY(%s) AND NOT superseded;

-- name: step_by_id
SELECT {step} FROM qd_step WHERE id = %s;

-- name: step_run
SELECT run_id, node FROM qd_step WHERE id = %s;

-- name: update_steps
-- Compare-and-set on (status, version): a row that somebody moved since it was read is not touched.
UPDATE qd_step s SET
  status = u.status, cause = u.cause, version = u.version, owner_epoch = u.owner_epoch, attempt = u.attempt,
  claimable = u.claimable, not_before = u.not_before, worker_session_id = u.worker_session_id,
  deps_left = u.deps_left, deps_ok = u.deps_ok, deps_bskip = u.deps_bskip, deps_err = u.deps_err, deps_bad = u.deps_bad,
  hold_requested = u.hold_requested, forced = u.forced, superseded = u.superseded,
  choice = u.choice::jsonb, error = u.error::jsonb,
  queued_at = u.queued_at, started_at = u.started_at, finished_at = u.finished_at,
  tokens = u.tokens::uuid[], serial = u.serial, pool = u.pool, prefer_until = u.prefer_until,
  blocked_on = CASE WHEN u.status = 'queued' AND NOT u.claimable THEN s.blocked_on END
FROM unnest(%s::uuid[], %s::text[], %s::int[], %s::text[], %s::text[], %s::int[], %s::int[], %s::int[], %s::bool[],
            %s::timestamptz[], %s::uuid[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[], %s::bool[], %s::bool[],
            %s::bool[], %s::text[], %s::text[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::text[],
            %s::uuid[], %s::text[], %s::timestamptz[])
  u(id, old_status, old_version, status, cause, version, owner_epoch, attempt, claimable, not_before,
    worker_session_id, deps_left, deps_ok, deps_bskip, deps_err, deps_bad, hold_requested, forced, superseded,
    choice, error, queued_at, started_at, finished_at, tokens, serial, pool, prefer_until)
WHERE s.id = u.id AND s.status = u.old_status AND s.version = u.old_version;

-- name: park_steps
-- Takes a run's queued steps out of the ready index, or puts back those that no operator holds (engine.md 3). What was
-- parked for a limit is parked anew when it is claimed again.
UPDATE qd_step SET claimable = %(claimable)s, blocked_on = NULL
WHERE run_id = %(run)s AND status = 'queued' AND NOT superseded
  AND (claimable <> %(claimable)s OR blocked_on IS NOT NULL)
  AND kind NOT IN ('compensation', 'compensation_check') AND NOT (%(claimable)s AND hold_requested);

-- name: park_on
-- Takes queued steps that are locked out of the ready index and says what they wait for.
UPDATE qd_step s SET claimable = false, blocked_on = u.gate
FROM unnest(%s::uuid[], %s::uuid[]) u(id, gate) WHERE s.id = u.id AND s.status = 'queued';

-- name: unpark
-- Puts the first steps that wait for a gate back. It waits for nobody; a pause that comes in between clears blocked_on,
-- so that the row no longer matches when it is looked at again.
WITH chosen AS (
  SELECT s.id, NOT (s.hold_requested OR ((r.paused OR r.cancel_requested)
    AND s.kind NOT IN ('compensation', 'compensation_check'))) AS ready
  FROM qd_step s JOIN qd_run r ON r.id = s.run_id
  WHERE s.blocked_on = %s AND s.status = 'queued' AND NOT s.claimable
  ORDER BY s.priority DESC, s.id LIMIT %s FOR NO KEY UPDATE OF s SKIP LOCKED)
UPDATE qd_step s SET claimable = c.ready, blocked_on = NULL FROM chosen c WHERE s.id = c.id RETURNING s.id;

-- name: free_runs
-- Locks those of the runs that nobody else holds.
SELECT {run} FROM qd_run WHERE id = ANY(%s::uuid[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;

-- name: leave_preferred
-- Moves queued steps of locked runs to their ordinary pool. One that was claimed meanwhile, or claimed and queued anew,
-- has another time, or none.
WITH chosen AS (
  SELECT s.id, s.pool FROM unnest(%s::uuid[], %s::timestamptz[]) u(id, prefer_until)
  JOIN qd_step s ON s.id = u.id AND s.prefer_until = u.prefer_until AND s.status = 'queued'
  ORDER BY s.id FOR NO KEY UPDATE OF s SKIP LOCKED)
UPDATE qd_step s SET pool = s.home_pool, prefer_until = NULL FROM chosen c WHERE s.id = c.id
RETURNING s.run_id, s.node, c.pool;

-- name: insert_steps
INSERT INTO qd_step (id, run_id, node, kind, execution_version, status, cause, version, owner_epoch, attempt, priority,
  pool, claimable, not_before, deps_left, deps_ok, deps_bskip, deps_err, deps_bad, created_at, queued_at, finished_at,
  home_pool, prefer_until, tenant_id, superseded, hold_requested, forced)
SELECT u.*, %s::uuid, false, false, false
FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::int[], %s::text[], %s::text[], %s::int[], %s::int[],
            %s::int[], %s::int[], %s::text[], %s::bool[], %s::timestamptz[], %s::int[], %s::int[], %s::int[], %s::int[],
            %s::int[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::text[], %s::timestamptz[]) u;

-- name: update_runs
-- Compare-and-set on (version, seq); the row is locked, so a miss means a bug and rolls everything back.
UPDATE qd_run r SET
  status = u.status, reason = u.reason, version = u.version, seq = u.seq, cancel_requested = u.cancel_requested,
  paused = u.paused, attention = u.attention::jsonb, n_steps = u.n_steps, n_open = u.n_open, n_live = u.n_live,
  n_timer = u.n_timer, n_hold_approval = u.n_hold_approval, n_hold_external = u.n_hold_external,
  n_unknown = u.n_unknown, n_bad = u.n_bad, n_open_operations = u.n_open_operations,
  n_compensating = u.n_compensating, cancel_by = u.cancel_by, started_at = u.started_at, finished_at = u.finished_at
FROM unnest(%s::uuid[], %s::int[], %s::bigint[], %s::text[], %s::text[], %s::int[], %s::bigint[], %s::bool[], %s::bool[],
            %s::text[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[],
            %s::int[], %s::int[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[])
  u(id, old_version, old_seq, status, reason, version, seq, cancel_requested, paused, attention, n_steps, n_open,
    n_live, n_timer, n_hold_approval, n_hold_external, n_unknown, n_bad, n_open_operations, n_compensating, cancel_by,
    started_at, finished_at)
WHERE r.id = u.id AND r.version = u.old_version AND r.seq = u.old_seq;

-- name: insert_events
INSERT INTO qd_event (run_id, seq, type, step_id, node, execution_version, attempt, owner_epoch, version, from_status,
  to_status, cause, actor, reason, payload, input_sha256, output_sha256, manifest_id, tenant_id, occurred_at,
  schema_version, xact)
SELECT u.run_id, u.seq, u.type, u.step_id, u.node, u.execution_version, u.attempt, u.owner_epoch, u.version,
  u.from_status, u.to_status, u.cause, u.actor, u.reason, u.payload::jsonb, u.input_sha256, u.output_sha256,
  u.manifest_id, %s::uuid, u.occurred_at, 1, x.xact
FROM unnest(%s::uuid[], %s::bigint[], %s::text[], %s::uuid[], %s::text[], %s::int[], %s::int[], %s::int[], %s::int[],
            %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::bytea[],
            %s::uuid[], %s::timestamptz[])
  u(run_id, seq, type, step_id, node, execution_version, attempt, owner_epoch, version, from_status, to_status, cause,
    actor, reason, payload, input_sha256, output_sha256, manifest_id, occurred_at),
  (SELECT pg_current_xact_id()::text::bigint AS xact) x;
