-- name: insert_tasks
-- A request key that is there already inserts nothing; the caller then compares the payload's hash.
INSERT INTO qd_task (id, workflow_version_id, workflow_name, name, goal, request_key, payload_sha256, input, priority, pool,
  agent, session_id, scope, success, retry, budget, timeout_seconds, scheduled_at, data_time, deadline, created_by,
  created_at, tenant_id, state)
SELECT u.id, u.wv, u.wn, u.name, u.goal, u.rk, u.sha, u.input, u.priority, u.pool, u.agent, u.session, u.scope::jsonb,
  u.success::jsonb, u.retry::jsonb, u.budget::jsonb, u.timeout, u.scheduled, u.data_time, u.deadline, u.by, u.at,
  %s::uuid, '{}'
FROM unnest(%s::uuid[], %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::int[],
            %s::text[], %s::text[], %s::uuid[], %s::text[], %s::text[], %s::text[], %s::text[], %s::float8[],
            %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::text[], %s::timestamptz[])
  u(id, wv, wn, name, goal, rk, sha, input, priority, pool, agent, session, scope, success, retry, budget, timeout,
    scheduled, data_time, deadline, by, at)
ON CONFLICT (tenant_id, workflow_name, request_key) WHERE request_key IS NOT NULL DO NOTHING
RETURNING id;

-- name: tasks_by_request_key
SELECT t.workflow_name, t.request_key, t.id, t.payload_sha256,
  (SELECT r.id FROM qd_run r WHERE r.task_id = t.id ORDER BY r.created_at, r.id LIMIT 1)
FROM qd_task t WHERE (t.workflow_name, t.request_key) IN (SELECT * FROM unnest(%s::text[], %s::text[]));

-- name: latest_run_of_task
SELECT id, status, parent_id FROM qd_run WHERE task_id = %s ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: budget_of_run
SELECT coalesce(budget, '{}')::text FROM qd_run WHERE id = %s;

-- name: run_above
-- A run that another one names as its parent, and what bounds whatever is submitted below it.
SELECT id, coalesce(budget, '{}')::text, coalesce(bounds, '[]')::text FROM qd_run WHERE id = %s;

-- name: insert_runs
INSERT INTO qd_run (id, task_id, workflow_version_id, manifest_id, rerun_of_id, parent_step_id, trace_id, status, version,
  seq, priority, deadline, n_steps, n_open, n_live, n_timer, n_hold_approval, n_hold_external, n_unknown, n_bad,
  n_open_operations, created_at, started_at, finished_at, parent_id, budget, bounds, tenant_id, reason, cancel_requested,
  paused)
SELECT u.*, %s::uuid, '', false, false
FROM (
  SELECT a.id, a.task, a.version, a.manifest, a.rerun_of, a.parent_step, a.trace, a.status, a.number, a.seq, a.priority,
    a.deadline, a.steps, a.open, a.live, a.timer, a.hold_approval, a.hold_external, a.unknown, a.bad, a.operations,
    a.created, a.started, a.finished, a.parent, a.budget::jsonb, a.bounds::jsonb
  FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], %s::text[], %s::int[],
              %s::bigint[], %s::int[], %s::timestamptz[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[], %s::int[],
              %s::int[], %s::int[], %s::int[], %s::timestamptz[], %s::timestamptz[], %s::timestamptz[], %s::uuid[],
              %s::text[], %s::text[])
    a(id, task, version, manifest, rerun_of, parent_step, trace, status, number, seq, priority, deadline, steps, open,
      live, timer, hold_approval, hold_external, unknown, bad, operations, created, started, finished, parent, budget, bounds)
) u;

-- name: sessions_by_key
-- A session that is there is read without a lock: submits into one session do not wait for each other.
SELECT key, id, created_by FROM qd_session WHERE key = ANY(%s);

-- name: insert_sessions
-- Somebody else may be making the same one: this waits for them and then inserts nothing.
INSERT INTO qd_session (id, tenant_id, key, context, created_by, created_at)
SELECT u.id, %s::uuid, u.key, '{}', %s, qd_now() FROM unnest(%s::uuid[], %s::text[]) u(id, key)
ON CONFLICT (tenant_id, key) DO NOTHING;

-- name: artifacts_for_reference
SELECT id, sha256, expires_at IS NOT NULL FROM qd_artifact WHERE id = ANY(%s) AND content IS NOT NULL;

-- name: keep_artifacts
-- What is referred to expires no more, unless it has expired meanwhile.
UPDATE qd_artifact SET expires_at = NULL WHERE id = ANY(%s) AND content IS NOT NULL RETURNING id;

-- name: purge_expired_artifacts
-- Uploads that nothing came to refer to: the content goes, the digest stays.
UPDATE qd_artifact SET content = NULL WHERE id IN (
  SELECT id FROM qd_artifact WHERE expires_at <= qd_now() AND content IS NOT NULL ORDER BY id LIMIT %s
  FOR NO KEY UPDATE SKIP LOCKED) RETURNING id;

-- name: create_session
INSERT INTO qd_session (id, tenant_id, key, context, created_by, created_at)
VALUES (%s, %s, %s, %s::jsonb, %s, qd_now()) ON CONFLICT (tenant_id, key) DO NOTHING RETURNING id;

-- name: session_of_id
SELECT key, created_by FROM qd_session WHERE id = %s;

-- name: set_session_context
UPDATE qd_session SET context = %s::jsonb WHERE id = %s;

-- name: lock_task_session
SELECT t.created_by, t.session_id, s.key, s.created_by FROM qd_task t LEFT JOIN qd_session s ON s.id = t.session_id
WHERE t.id = %s FOR NO KEY UPDATE OF t;

-- name: attach_task
UPDATE qd_task SET session_id = %s WHERE id = %s;

-- name: read_session
SELECT id, key, context, created_by, created_at FROM qd_session WHERE id = %s;

-- name: read_sessions
SELECT id, key, created_by, created_at FROM qd_session
WHERE (%(owner)s::text IS NULL OR created_by = %(owner)s) AND (%(key)s::text IS NULL OR key = %(key)s)
  AND (%(below)s::uuid IS NULL OR id < %(below)s) ORDER BY id DESC LIMIT %(limit)s;

-- name: read_session_tasks
-- Newest first, each with its newest run.
SELECT t.id, t.workflow_name AS workflow, t.name, t.created_by, t.created_at, r.id AS run_id, r.status
FROM qd_task t LEFT JOIN LATERAL (
  SELECT id, status FROM qd_run WHERE task_id = t.id ORDER BY created_at DESC, id DESC LIMIT 1) r ON true
WHERE t.session_id = %(id)s AND (%(below)s::uuid IS NULL OR t.id < %(below)s) ORDER BY t.id DESC LIMIT %(limit)s;
