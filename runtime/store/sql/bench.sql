-- name: bench_going_on
-- Runs of the workflow that stands parked behind a limit go on no more than those that were paused.
SELECT EXISTS (SELECT FROM qd_run r WHERE r.status IN ('accepted', 'queued', 'running', 'waiting_tool', 'cancelling')
  AND r.status NOT IN ('completed', 'partially_completed', 'failed', 'cancelled') AND NOT EXISTS (
    SELECT FROM qd_workflow_version v JOIN qd_workflow w ON w.id = v.workflow_id
    WHERE v.id = r.workflow_version_id AND w.name = 'parked'));

-- name: bench_counts
-- Over the tenant's finished runs: what the guarantees say must be equal, and runs whose run_seq has a gap.
WITH r AS (SELECT id, status, seq FROM qd_run WHERE finished_at IS NOT NULL AND status <> 'cancelled'),
  e AS (SELECT e.run_id, count(*) AS n, min(e.seq) AS low, max(e.seq) AS high,
          count(*) FILTER (WHERE e.type = 'STEP_STARTED') AS started
        FROM qd_event e JOIN r ON r.id = e.run_id GROUP BY e.run_id)
SELECT (SELECT count(*) FROM r), (SELECT count(*) FROM r WHERE status = 'completed'),
  (SELECT count(*) FROM qd_step s JOIN r ON r.id = s.run_id),
  (SELECT count(*) FROM qd_step s JOIN r ON r.id = s.run_id WHERE s.status = 'succeeded'),
  (SELECT count(*) FROM qd_attempt a JOIN r ON r.id = a.run_id WHERE a.outcome = 'succeeded' AND a.finished_at IS NOT NULL),
  (SELECT count(*) FROM qd_checkpoint c JOIN r ON r.id = c.run_id),
  (SELECT sum(started)::bigint FROM e), (SELECT sum(n)::bigint FROM e),
  (SELECT count(*) FROM r LEFT JOIN e ON e.run_id = r.id
    WHERE e.n IS DISTINCT FROM r.seq OR e.low <> 1 OR e.high <> r.seq);

-- name: bench_operations
SELECT count(*), count(*) FILTER (WHERE sends = 1 AND status = 'succeeded') FROM qd_operation;

-- name: bench_tasks
SELECT count(*) FROM qd_task t JOIN qd_run r ON r.task_id = t.id WHERE t.id = ANY(%s);

-- name: bench_all_tasks
SELECT count(*) FROM qd_task;

-- name: bench_guard_off
-- The law lets no step begin as succeeded; the owner of the tables copies history all the same.
ALTER TABLE qd_step DISABLE TRIGGER qd_guard_step_insert;

-- name: bench_check_now
-- A table with checks still to come cannot be altered.
SET CONSTRAINTS ALL IMMEDIATE;

-- name: bench_guard_on
ALTER TABLE qd_step ENABLE TRIGGER qd_guard_step_insert;

-- name: bench_finished_run
SELECT id FROM qd_run WHERE status = 'completed' ORDER BY id LIMIT 1;

-- name: bench_copy_run
-- Task, run, steps, attempts, checkpoints and events of a finished run, as often as asked, with ids of this moment.
WITH ids AS MATERIALIZED (
    -- UUIDv7: milliseconds, version 7, the rest random.
    SELECT g, (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
      || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid AS id
    FROM generate_series(1, %(copies)s::int * 12) g),
  new AS MATERIALIZED (
    SELECT t.g, t.id AS task_id, r.id AS run_id FROM ids t JOIN ids r ON r.g = t.g + 1 WHERE t.g %% 12 = 1),
  steps AS MATERIALIZED (
    SELECT new.run_id, s.old_id, i.id FROM new
    CROSS JOIN (SELECT id AS old_id, row_number() OVER () AS place FROM qd_step WHERE run_id = %(template)s) s
    JOIN ids i ON i.g = new.g + 1 + s.place),
  into_task AS (
    INSERT INTO qd_task (id, workflow_name, name, goal, request_key, payload_sha256, input, state, priority, pool, agent, scope,
      success, retry, budget, timeout_seconds, scheduled_at, data_time, deadline, created_by, created_at,
      session_id, tenant_id, workflow_version_id)
    SELECT new.task_id, o.workflow_name, o.name, o.goal, o.request_key, o.payload_sha256, o.input, o.state, o.priority,
      o.pool, o.agent, o.scope, o.success, o.retry, o.budget, o.timeout_seconds, o.scheduled_at, o.data_time,
      o.deadline, o.created_by, o.created_at, o.session_id, o.tenant_id, o.workflow_version_id
    FROM new CROSS JOIN qd_task o WHERE o.id = (SELECT task_id FROM qd_run WHERE id = %(template)s)),
  into_run AS (
    INSERT INTO qd_run (id, parent_step_id, trace_id, status, reason, version, seq, priority, deadline, cancel_requested, paused,
      attention, n_steps, n_open, n_live, n_timer, n_hold_approval, n_hold_external, n_unknown, n_bad,
      n_open_operations, created_at, started_at, finished_at, manifest_id, rerun_of_id, tenant_id, task_id,
      workflow_version_id)
    SELECT new.run_id, o.parent_step_id, new.run_id, o.status, o.reason, o.version, o.seq, o.priority, o.deadline,
      o.cancel_requested, o.paused, o.attention, o.n_steps, o.n_open, o.n_live, o.n_timer, o.n_hold_approval,
      o.n_hold_external, o.n_unknown, o.n_bad, o.n_open_operations, o.created_at, o.started_at, o.finished_at,
      o.manifest_id, o.rerun_of_id, o.tenant_id, new.task_id, o.workflow_version_id
    FROM new CROSS JOIN qd_run o WHERE o.id = %(template)s),
  into_step AS (
    INSERT INTO qd_step (id, node, kind, execution_version, superseded, status, cause, version, owner_epoch, attempt, priority, pool,
      claimable, not_before, worker_session_id, deps_left, deps_ok, deps_bskip, deps_err, deps_bad,
      hold_requested, forced, choice, error, created_at, queued_at, started_at, finished_at, run_id, tenant_id)
    SELECT steps.id, o.node, o.kind, o.execution_version, o.superseded, o.status, o.cause, o.version, o.owner_epoch,
      o.attempt, o.priority, o.pool, o.claimable, o.not_before, o.worker_session_id, o.deps_left, o.deps_ok,
      o.deps_bskip, o.deps_err, o.deps_bad, o.hold_requested, o.forced, o.choice, o.error, o.created_at,
      o.queued_at, o.started_at, o.finished_at, steps.run_id, o.tenant_id
    FROM steps JOIN qd_step o ON o.id = steps.old_id),
  into_attempt AS (
    INSERT INTO qd_attempt (run_id, step_id, number, owner_epoch, worker_session_id, started_at, finished_at, outcome, error,
      input_sha256, output_sha256, resources, tenant_id)
    SELECT steps.run_id, steps.id, o.number, o.owner_epoch, o.worker_session_id, o.started_at, o.finished_at, o.outcome,
      o.error, o.input_sha256, o.output_sha256, o.resources, o.tenant_id
    FROM steps JOIN qd_attempt o ON o.step_id = steps.old_id AND o.run_id = %(template)s),
  into_checkpoint AS (
    INSERT INTO qd_checkpoint (run_id, node, execution_version, step_id, attempt, owner_epoch, manifest_id, run_seq, kind, input_sha256,
      output, output_sha256, artifact_id, adopted_from, created_at, tenant_id)
    SELECT steps.run_id, o.node, o.execution_version, steps.id, o.attempt, o.owner_epoch, o.manifest_id, o.run_seq,
      o.kind, o.input_sha256, o.output, o.output_sha256, o.artifact_id, o.adopted_from, o.created_at,
      o.tenant_id
    FROM steps JOIN qd_checkpoint o ON o.step_id = steps.old_id AND o.run_id = %(template)s),
  into_event AS (
    INSERT INTO qd_event (run_id, seq, xact, type, step_id, node, execution_version, attempt, owner_epoch, version, from_status,
      to_status, cause, actor, reason, payload, input_sha256, output_sha256, manifest_id, schema_version,
      occurred_at, tenant_id)
    SELECT new.run_id, o.seq, pg_current_xact_id()::text::bigint, o.type, steps.id, o.node, o.execution_version,
      o.attempt, o.owner_epoch, o.version, o.from_status, o.to_status, o.cause, o.actor, o.reason, o.payload,
      o.input_sha256, o.output_sha256, o.manifest_id, o.schema_version, o.occurred_at, o.tenant_id
    FROM new CROSS JOIN qd_event o LEFT JOIN steps ON steps.run_id = new.run_id AND steps.old_id = o.step_id
    WHERE o.run_id = %(template)s)
SELECT count(*) FROM steps;

-- name: bench_copy_history
-- Task, run and steps of a finished run, as often as asked, begun evenly between two times, with ids of these times.
WITH ids AS MATERIALIZED (
    SELECT g, g / 12 AS place, %(from)s::timestamptz + (%(to)s::timestamptz - %(from)s::timestamptz) * (g / 12) / %(copies)s AS at
    FROM generate_series(0, %(copies)s::int * 12 - 1) g),
  new_ids AS MATERIALIZED (
    SELECT g, at, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7'
      || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid AS id FROM ids),
  new AS MATERIALIZED (
    SELECT t.g, t.at, t.id AS task_id, r.id AS run_id FROM new_ids t JOIN new_ids r ON r.g = t.g + 1 WHERE t.g %% 12 = 0),
  old AS MATERIALIZED (SELECT * FROM qd_run WHERE id = %(template)s),
  into_task AS (
    INSERT INTO qd_task (id, workflow_name, name, goal, request_key, payload_sha256, input, state, priority, pool, agent, scope,
      success, retry, budget, timeout_seconds, scheduled_at, data_time, deadline, created_by, created_at,
      session_id, tenant_id, workflow_version_id)
    SELECT new.task_id, o.workflow_name, 'order ' || new.g, o.goal, o.request_key, o.payload_sha256, o.input, o.state, o.priority,
      o.pool, o.agent, o.scope, o.success, o.retry, o.budget, o.timeout_seconds, o.scheduled_at, o.data_time,
      o.deadline, o.created_by, new.at, o.session_id, o.tenant_id, o.workflow_version_id
    FROM new CROSS JOIN qd_task o WHERE o.id = (SELECT task_id FROM old)),
  into_run AS (
    INSERT INTO qd_run (id, parent_step_id, trace_id, status, reason, version, seq, priority, deadline, cancel_requested, paused,
      attention, n_steps, n_open, n_live, n_timer, n_hold_approval, n_hold_external, n_unknown, n_bad,
      n_open_operations, created_at, started_at, finished_at, manifest_id, rerun_of_id, tenant_id, task_id,
      workflow_version_id)
    SELECT new.run_id, o.parent_step_id, new.run_id, o.status, o.reason, o.version, o.seq, o.priority, o.deadline,
      o.cancel_requested, o.paused, o.attention, o.n_steps, o.n_open, o.n_live, o.n_timer, o.n_hold_approval,
      o.n_hold_external, o.n_unknown, o.n_bad, o.n_open_operations, new.at, new.at, new.at + interval '3 seconds',
      o.manifest_id, o.rerun_of_id, o.tenant_id, new.task_id, o.workflow_version_id
    FROM new CROSS JOIN old o),
  steps AS (SELECT row_number() OVER () AS place, s.* FROM qd_step s WHERE s.run_id = %(template)s),
  into_step AS (
    INSERT INTO qd_step (id, node, kind, execution_version, superseded, status, cause, version, owner_epoch, attempt, priority, pool,
      claimable, not_before, worker_session_id, deps_left, deps_ok, deps_bskip, deps_err, deps_bad,
      hold_requested, forced, choice, error, created_at, queued_at, started_at, finished_at, run_id, tenant_id)
    SELECT i.id, o.node, o.kind, o.execution_version, o.superseded, o.status, o.cause, o.version, o.owner_epoch,
      o.attempt, o.priority, o.pool, o.claimable, o.not_before, o.worker_session_id, o.deps_left, o.deps_ok,
      o.deps_bskip, o.deps_err, o.deps_bad, o.hold_requested, o.forced, o.choice, o.error, new.at,
      new.at, new.at, new.at + interval '1 second', new.run_id, o.tenant_id
    FROM new CROSS JOIN steps o JOIN new_ids i ON i.g = new.g + 1 + o.place)
SELECT count(*) FROM new;

-- name: bench_vacuum
-- What autovacuum would do to the new rows while it is measured: as in tables that were filled over months.
VACUUM (ANALYZE) qd_task, qd_run, qd_step, qd_attempt, qd_checkpoint, qd_event;

-- name: bench_as_worker
SET LOCAL ROLE qd_worker;

-- name: bench_backend
SELECT pg_backend_pid();
