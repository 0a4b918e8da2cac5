-- name: runs_by_state
-- Runs by status and start within 1, 12 and 24 h, over at most so many of the newest; the count says when it was cut.
SELECT status, count(*) FILTER (WHERE created_at >= %(now)s::timestamptz - interval '1 hour') AS h1,
  count(*) FILTER (WHERE created_at >= %(now)s::timestamptz - interval '12 hours') AS h12, count(*) AS h24
FROM (SELECT status, created_at FROM qd_run
      WHERE created_at >= %(now)s::timestamptz - interval '24 hours' ORDER BY created_at DESC LIMIT %(bound)s) r
GROUP BY status;

-- name: failures_by_class
-- Failed steps of the newest runs that have one, by error class: how many runs, an example, and when (12 slices).
SELECT coalesce(s.error->>'class', 'none') AS class, count(DISTINCT r.id) AS runs,
  (array_agg(left(s.error->>'message', 160) ORDER BY s.finished_at DESC))[1] AS message,
  (array_agg(t.workflow_name ORDER BY s.finished_at DESC))[1] AS workflow,
  count(DISTINCT t.workflow_name) AS workflows,
  array_agg(greatest(1, least(12, ceil(12 * (1 - extract(epoch FROM %(now)s::timestamptz - r.created_at)
    / extract(epoch FROM %(span)s::interval)))))::int) AS slices
FROM (SELECT id, task_id, created_at FROM qd_run WHERE created_at >= %(now)s::timestamptz - %(span)s::interval AND n_bad > 0
      ORDER BY created_at DESC LIMIT 2000) r
JOIN qd_step s ON s.run_id = r.id AND s.status = 'failed' AND NOT s.superseded JOIN qd_task t ON t.id = r.task_id
GROUP BY 1 ORDER BY runs DESC, class LIMIT 8;

-- name: runs_in_attention
-- Runs that a person has to look after, the earliest due first.
SELECT r.id, r.status, r.reason, r.attention, r.created_at, t.name, t.workflow_name, r.n_unknown, r.n_open_operations
FROM qd_run r JOIN qd_task t ON t.id = r.task_id WHERE r.status = 'needs_attention'
ORDER BY r.attention->>'due' NULLS LAST, r.created_at LIMIT %s;

-- name: effects_by_state
-- Side effects that are not settled.
SELECT status, count(*) AS count FROM (SELECT status FROM qd_operation
  WHERE status IN ('intended', 'sent', 'unknown', 'needs_human', 'partially_applied', 'compensating', 'compensation_failed')
  LIMIT 1001) o GROUP BY status;

-- name: oldest_queued
-- The tenant's step that waits longest for a worker.
SELECT s.queued_at, s.pool, s.run_id, s.node FROM qd_step s WHERE s.status = 'queued' AND s.claimable
ORDER BY s.queued_at LIMIT 1;

-- name: run_facets
-- How the runs of a time window divide by status and workflow, over at most so many of the newest.
SELECT r.status, t.workflow_name AS workflow, count(*) AS count
FROM (SELECT status, task_id FROM qd_run
      WHERE created_at >= %(from)s AND created_at < %(before)s ORDER BY created_at DESC LIMIT %(bound)s) r
JOIN qd_task t ON t.id = r.task_id GROUP BY 1, 2;

-- name: any_run
SELECT 1 FROM qd_run LIMIT 1;

-- name: run_operations
-- A run's side effects after a place in the order of their intents; with `first` those that are open come before all.
SELECT o.id, o.business_key, o.payload_sha256, v.name AS tool, v.number AS tool_version, v.contract, o.recovery, o.step_id,
  s.node, s.kind, o.execution_version, o.attempt, o.owner_epoch, o.status, o.version, o.sends, o.requester, o.external_ref,
  o.response_sha256, o.error, o.next_query_at, o.intended_at, o.sent_at, o.settled_at, o.observed_at, o.queried_at,
  o.finding
FROM qd_operation o JOIN qd_tool_version v ON v.id = o.tool_version_id JOIN qd_step s ON s.id = o.step_id
WHERE o.run_id = %(run)s AND (%(node)s::text IS NULL OR s.node = %(node)s::text)
  AND (%(id)s::uuid IS NULL OR (o.intended_at, o.id) > (%(at)s::timestamptz, %(id)s::uuid))
ORDER BY o.status = ANY(%(first)s::text[]) DESC, o.intended_at, o.id LIMIT %(limit)s;

-- name: run_attempts
-- Every attempt of a run with its worker, in the order of their starts.
SELECT a.step_id, s.node, s.kind, s.execution_version, a.number, a.owner_epoch, a.worker_session_id, a.started_at, a.finished_at,
  a.outcome, a.error, w.host, w.pid, w.lease_until, w.beat_at, w.ended_at
FROM qd_attempt a JOIN qd_step s ON s.id = a.step_id LEFT JOIN qd_worker_session w ON w.id = a.worker_session_id
WHERE a.run_id = %s ORDER BY a.started_at, a.number LIMIT 5000;

-- name: run_checkpoints
SELECT node, execution_version, kind, run_seq, output_sha256, artifact_id, adopted_from, created_at
FROM qd_checkpoint WHERE run_id = %s;

-- name: run_artifacts
-- Large contents that a run's input and the outputs of its steps refer to. In canonical JSON a reference has one form.
WITH named AS (
  SELECT NULL AS node, NULL::int AS execution_version, found[1]::uuid AS artifact_id, 0::bigint AS place
  FROM qd_run r JOIN qd_task t ON t.id = r.task_id, regexp_matches(convert_from(t.input, 'UTF8'),
    '\{"artifact_id":"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})","sha256":"[0-9a-f]{64}"\}', 'gi') found
  WHERE r.id = %(run)s
  UNION
  SELECT node, execution_version, artifact_id, run_seq FROM qd_checkpoint
  WHERE run_id = %(run)s AND artifact_id IS NOT NULL)
SELECT n.node, n.execution_version, s.kind, a.id, a.sha256, a.size, a.media_type, a.created_by, a.created_at,
  a.content IS NULL AS purged
FROM named n JOIN qd_artifact a ON a.id = n.artifact_id
LEFT JOIN qd_step s ON s.run_id = %(run)s AND s.node = n.node AND s.execution_version = n.execution_version
ORDER BY n.place, a.id LIMIT %(limit)s;

-- name: run_audit
-- Acts on a run among the newest entries of the audit.
SELECT number, at, actor, verb, subject_kind, subject_id, result, reason, body, previous_sha256, sha256 FROM (
  SELECT * FROM qd_audit_entry ORDER BY number DESC LIMIT %(window)s) a
WHERE run_id = %(run)s ORDER BY number DESC LIMIT 200;

-- name: tool_use
-- What the newest side effects of each tool version came to.
SELECT v.name, v.number, o.status, count(*) AS count FROM (
  SELECT tool_version_id, status FROM qd_operation ORDER BY id DESC LIMIT 5000) o
JOIN qd_tool_version v ON v.id = o.tool_version_id GROUP BY 1, 2, 3;

-- name: workflow_use
-- Runs of the newest window by workflow version and status.
SELECT t.workflow_name AS name, v.number, r.status, count(*) AS count, max(r.created_at) AS newest FROM (
  SELECT task_id, workflow_version_id, status, created_at FROM qd_run ORDER BY created_at DESC LIMIT 5000) r
JOIN qd_task t ON t.id = r.task_id JOIN qd_workflow_version v ON v.id = r.workflow_version_id GROUP BY 1, 2, 3;

-- name: queue_by_pool
-- Steps that may run now, by pool.
SELECT pool, count(*) AS ready, min(queued_at) AS oldest, max(priority) AS priority FROM (
  SELECT pool, queued_at, priority FROM qd_step WHERE status = 'queued' AND claimable LIMIT 5001) s GROUP BY pool;

-- name: parked_by_pool
SELECT pool, count(*) AS parked FROM (
  SELECT pool FROM qd_step WHERE status = 'queued' AND NOT claimable LIMIT 5001) s GROUP BY pool;

-- name: running_by_worker
SELECT s.worker_session_id AS id, s.run_id, s.node, s.started_at, s.id AS step_id FROM qd_step s WHERE s.status = 'running'
ORDER BY s.started_at LIMIT 500;

-- name: node_events
-- The events of one node of a run, and the one that created the run.
SELECT seq, type, step_id, node, execution_version, attempt, owner_epoch, version, from_status, to_status, cause,
  actor, reason, payload, input_sha256, output_sha256, manifest_id, schema_version, occurred_at
FROM qd_event WHERE run_id = %(run)s AND (node = %(node)s OR type = 'RUN_CREATED') ORDER BY seq LIMIT 2000;
