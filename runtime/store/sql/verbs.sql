-- name: workflow_of_step
-- The workflow a step belongs to: object permissions hang there.
SELECT v.workflow_id FROM qd_step s JOIN qd_run r ON r.id = s.run_id
  JOIN qd_workflow_version v ON v.id = r.workflow_version_id WHERE s.id = %s;

-- name: workflow_of_run
SELECT v.workflow_id FROM qd_run r JOIN qd_workflow_version v ON v.id = r.workflow_version_id WHERE r.id = %s;

-- name: workflow_of_task
SELECT v.workflow_id FROM qd_task t JOIN qd_workflow_version v ON v.id = t.workflow_version_id WHERE t.id = %s;

-- name: planned_start
SELECT scheduled_at FROM qd_task WHERE id = %s;

-- name: last_wait
-- Why a step waited last, before it was held.
SELECT cause FROM qd_event WHERE run_id = %s AND step_id = %s
  AND (to_status = 'waiting' OR type = 'TIMER_SET') ORDER BY seq DESC LIMIT 1;

-- name: force_asked
-- Who asked last that a step be forced, why, with what evidence, and in which version they were shown it.
SELECT actor, reason, payload->>'evidence', (payload->>'version')::int FROM qd_event
WHERE run_id = %s AND step_id = %s AND type = 'FORCE_ASKED' ORDER BY seq DESC LIMIT 1;

-- name: lock_task_for_run
-- New runs of one task are made one after the other.
SELECT t.id, t.workflow_version_id, t.priority, t.pool, t.deadline, t.timeout_seconds, v.spec_sha256,
  t.budget::text
FROM qd_task t JOIN qd_workflow_version v ON v.id = t.workflow_version_id WHERE t.id = %s FOR NO KEY UPDATE OF t;

-- name: adoptable_nodes
-- Nodes of a run whose current step succeeded with a stored output and an input digest, under this manifest.
SELECT s.node FROM qd_step s
  JOIN qd_checkpoint c ON c.run_id = s.run_id AND c.node = s.node AND c.execution_version = s.execution_version
WHERE s.run_id = %s AND NOT s.superseded AND s.status = 'succeeded' AND c.manifest_id = %s
  AND c.input_sha256 IS NOT NULL AND c.output_sha256 IS NOT NULL;
