-- name: ready_tenants
SELECT qd_ready_tenants(%s);

-- name: claim_ready
-- Never waits: step and run rows are locked together, and what somebody else holds is passed over (engine.md 1). Rows are
-- locked in the order of this list, so a step is locked only when its run is ours: whoever holds a run waits for no claim.
SELECT {s.step}, {r.run}
FROM qd_step s JOIN qd_run r ON r.id = s.run_id
WHERE s.status = 'queued' AND s.claimable AND s.pool = %s AND s.tenant_id = %s AND s.run_id <> ALL(%s)
  AND (s.kind IN ('compensation', 'compensation_check')
       OR (NOT r.paused AND NOT r.cancel_requested AND (r.deadline IS NULL OR r.deadline > qd_now())))
ORDER BY s.priority DESC, s.id LIMIT %s
FOR NO KEY UPDATE OF r, s SKIP LOCKED;

-- name: most_urgent
-- The priority at the head of each pool's queue, null where it is empty: one index probe a pool.
SELECT p.pool, (SELECT s.priority FROM qd_step s
                WHERE s.status = 'queued' AND s.claimable AND s.pool = p.pool AND s.tenant_id = t.id
                ORDER BY s.priority DESC, s.id LIMIT 1)
FROM (SELECT %s::uuid AS id) t, unnest(%s::text[]) p(pool);

-- name: session_is_live
-- Shares the session's mark until the transaction ends: session_is_quiet sees by it that a start is still under way.
SELECT w.ended_at IS NULL AND w.lease_until > clock_timestamp() + c.offset, pg_advisory_xact_lock_shared(%s)
FROM qd_worker_session w, qd_clock c WHERE w.id = %s;

-- name: session_is_quiet
-- Whether no transaction is open that may still start steps for the session; none begins before this one ends.
SELECT pg_try_advisory_xact_lock(%s);

-- name: steps_of_session
-- What a session runs by the rows; it compares with what it knows when the answer to a claim was lost.
SELECT {s.step}, {r.run} FROM qd_step s JOIN qd_run r ON r.id = s.run_id
WHERE s.tenant_id = %s AND s.worker_session_id = %s AND s.status = 'running';

-- name: task_inputs
-- A rerun's first event names the run and the nodes whose results it may take over.
SELECT r.id, t.input, t.id, t.name, t.goal, t.data_time, t.retry, t.created_by, r.rerun_of_id,
  CASE WHEN r.rerun_of_id IS NOT NULL
       THEN (SELECT e.payload->'adopts' FROM qd_event e WHERE e.run_id = r.id AND e.seq = 1) END, t.scope, r.budget, r.bounds
FROM qd_run r JOIN qd_task t ON t.id = r.task_id WHERE r.id = ANY(%s);

-- name: set_task_states
-- The business State is the task's: it outlives the run that wrote it.
UPDATE qd_task t SET state = u.state::jsonb FROM unnest(%s::uuid[], %s::text[]) u(id, state) WHERE t.id = u.id;

-- name: offered_checkpoints
-- What an earlier run of the task stored at these nodes; a purged output is not offered.
SELECT s.run_id, s.node, c.input_sha256, coalesce(c.output, a.content), c.output_sha256
FROM unnest(%s::uuid[], %s::text[]) u(run_id, node)
JOIN qd_step s ON s.run_id = u.run_id AND s.node = u.node AND NOT s.superseded AND s.status = 'succeeded'
JOIN qd_checkpoint c ON c.run_id = s.run_id AND c.node = s.node AND c.execution_version = s.execution_version
LEFT JOIN qd_artifact a ON a.id = c.artifact_id
WHERE coalesce(c.output, a.content) IS NOT NULL;

-- name: outputs_at
-- Status, error and output of upstream nodes, and whether there is to be an output; one too large for a row comes from its
-- artifact.
SELECT s.run_id, s.node, s.status, s.error, coalesce(c.output, a.content), c.output_sha256 IS NOT NULL
FROM unnest(%s::uuid[], %s::text[]) u(run_id, node)
JOIN qd_step s ON s.run_id = u.run_id AND s.node = u.node AND NOT s.superseded
LEFT JOIN qd_checkpoint c ON c.run_id = s.run_id AND c.node = s.node AND c.execution_version = s.execution_version
LEFT JOIN qd_artifact a ON a.id = c.artifact_id;

-- name: recovery_facts
-- What runs were bound to, whether their workflow is still that, and whether who submitted the task has left the tenant.
SELECT r.id, m.body, v.spec_sha256, sha256(v.spec) = v.spec_sha256,
  (SELECT count(*) > 0 AND count(*) FILTER (WHERE b.ended_at IS NULL) = 0 FROM qd_membership b
   JOIN auth_user u ON u.id = b.user_id WHERE 'user:' || u.username = t.created_by)
FROM qd_run r JOIN qd_manifest m ON m.id = r.manifest_id JOIN qd_workflow_version v ON v.id = r.workflow_version_id
JOIN qd_task t ON t.id = r.task_id WHERE r.id = ANY(%s);

-- name: insert_attempts
INSERT INTO qd_attempt (run_id, step_id, number, owner_epoch, tenant_id, worker_session_id, started_at)
SELECT u.*, %s::uuid, %s::uuid, %s::timestamptz
FROM unnest(%s::uuid[], %s::uuid[], %s::int[], %s::int[]) u;

-- name: finish_attempts
UPDATE qd_attempt a SET finished_at = %s, outcome = u.outcome, error = u.error::jsonb, input_sha256 = u.input_sha256,
  output_sha256 = u.output_sha256, resources = u.resources::jsonb
FROM unnest(%s::uuid[], %s::uuid[], %s::int[], %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::text[])
  u(run_id, step_id, number, outcome, error, input_sha256, output_sha256, resources)
WHERE a.run_id = u.run_id AND a.step_id = u.step_id AND a.number = u.number;

-- name: insert_checkpoints
INSERT INTO qd_checkpoint (run_id, node, execution_version, step_id, attempt, owner_epoch, manifest_id, run_seq, kind,
  input_sha256, output, output_sha256, artifact_id, adopted_from, tenant_id, created_at)
SELECT u.*, %s::uuid, %s::timestamptz
FROM unnest(%s::uuid[], %s::text[], %s::int[], %s::uuid[], %s::int[], %s::int[], %s::uuid[], %s::bigint[], %s::text[],
            %s::bytea[], %s::bytea[], %s::bytea[], %s::uuid[], %s::uuid[]) u;

-- name: store_results
-- Content goes first, its reference after it; the same content is stored once a tenant. What is kept for good already is
-- only looked up, the rest is locked in the order of the hashes: who stores the same in another order waits, no more.
WITH given AS (SELECT * FROM unnest(%(ids)s::uuid[], %(hashes)s::bytea[], %(contents)s::bytea[]) u(id, sha256, content)),
kept AS (SELECT a.id, a.sha256 FROM given g JOIN qd_artifact a ON a.tenant_id = %(tenant)s AND a.sha256 = g.sha256
         WHERE a.content IS NOT NULL AND a.expires_at IS NULL),
put AS (INSERT INTO qd_artifact (id, tenant_id, sha256, size, media_type, content, created_by, created_at, expires_at)
        SELECT g.id, %(tenant)s, g.sha256, octet_length(g.content), %(type)s, g.content, 'engine', qd_now(), NULL
        FROM given g WHERE g.sha256 NOT IN (SELECT k.sha256 FROM kept k) ORDER BY g.sha256
        ON CONFLICT (tenant_id, sha256) DO UPDATE SET expires_at = NULL, content = excluded.content RETURNING id, sha256)
SELECT sha256, id FROM kept UNION ALL SELECT sha256, id FROM put;

-- name: insert_session
INSERT INTO qd_worker_session (id, host, pid, process_start, pools, slots, code_version, started_at, lease_until, beat_at, busy, progress_seq)
VALUES (%s, %s, %s, %s, %s, %s, %s, qd_now(), qd_now() + make_interval(secs => %s), qd_now(), 0, 0);

-- name: steps_held_by
SELECT tenant_id, run_id, node, step_id, owner_epoch FROM qd_steps_held_by(%s);

-- name: asked_to_end
-- Which of a worker's steps (run, step, epoch) were asked to end by a cancel of their run.
SELECT u.step_id FROM unnest(%s::uuid[], %s::uuid[], %s::int[]) u(run_id, step_id, epoch)
JOIN qd_run r ON r.id = u.run_id AND r.cancel_requested
WHERE EXISTS (SELECT FROM qd_event e WHERE e.run_id = u.run_id AND e.step_id = u.step_id
              AND e.type = 'STEP_CANCEL_REQUESTED' AND e.owner_epoch = u.epoch);

-- name: forgetful_sessions
SELECT qd_forgetful_sessions(%s, %s);

-- name: live_sessions_of_host
SELECT id, pid, process_start, qd_now() > lease_until FROM qd_worker_session WHERE host = %s AND ended_at IS NULL;

-- name: renew_sessions
-- A lease that has run out is not renewed: its steps may be somebody else's by now.
-- What its worker shows of itself comes with it: how many steps are in its hands, how many it has written, what its
-- process uses, and how far each call is (C2.8).
UPDATE qd_worker_session w SET lease_until = qd_now() + make_interval(secs => %s), beat_at = qd_now(), end_reason = NULL,
  busy = u.busy, progress_seq = u.progress, cpu_seconds = u.cpu, rss_bytes = u.rss, in_hand = u.calls::jsonb
FROM unnest(%s::uuid[], %s::int[], %s::bigint[], %s::float8[], %s::bigint[], %s::text[]) u(id, busy, progress, cpu, rss, calls)
WHERE w.id = u.id AND w.ended_at IS NULL AND w.lease_until > qd_now() RETURNING w.id;

-- name: mark_stalled
-- Alive, and busy without progress: its lease is left to run out, and this will be the reason (C2.8).
UPDATE qd_worker_session SET end_reason = 'no_progress' WHERE id = ANY(%s) AND ended_at IS NULL;

-- name: end_sessions
UPDATE qd_worker_session SET ended_at = qd_now(), end_reason = %s WHERE id = ANY(%s) AND ended_at IS NULL RETURNING id;

-- name: end_expired_sessions
UPDATE qd_worker_session SET ended_at = qd_now(), end_reason = coalesce(end_reason, 'lease_lost')
WHERE ended_at IS NULL AND lease_until <= qd_now() RETURNING id;

-- name: orphaned_steps
SELECT tenant_id, run_id, node, session_id FROM qd_orphaned_steps(%s);

-- name: lost_before
-- How many workers these steps (run, step) have lost already; none is left out.
SELECT a.step_id, count(*) FROM unnest(%s::uuid[], %s::uuid[]) u(run_id, step_id)
JOIN qd_attempt a ON a.run_id = u.run_id AND a.step_id = u.step_id AND a.outcome = 'lost' GROUP BY a.step_id;

-- name: tries_before
-- How often a call of these steps (run, step) failed and was to be made again.
SELECT a.step_id, count(*) FROM unnest(%s::uuid[], %s::uuid[]) u(run_id, step_id)
JOIN qd_attempt a ON a.run_id = u.run_id AND a.step_id = u.step_id AND a.outcome = 'retry' GROUP BY a.step_id;

-- name: lock_calls_of
-- One transaction at a time counts what a run and those below it called; taken last, freed at its end.
SELECT pg_advisory_xact_lock(hashtextextended('calls:' || u.id::text, 17))
FROM (SELECT id FROM unnest(%s::uuid[]) x(id) ORDER BY id) u;

-- name: lock_effects_of
-- The same of effects; taken after the runs.
SELECT pg_advisory_xact_lock(hashtextextended('effects:' || u.id::text, 17))
FROM (SELECT id FROM unnest(%s::uuid[]) x(id) ORDER BY id) u;

-- name: calls_of_runs
-- Calls that each of these runs and the runs below it made, by the run that made them, and those that are under way: an
-- attempt that looked, waited, or was refused here made none. Then how many of them are in hand, and may turn out to be none.
WITH RECURSIVE family(top, run_id) AS (
  SELECT u.id, u.id FROM unnest(%s::uuid[]) u(id)
  UNION ALL SELECT f.top, r.id FROM family f JOIN qd_run r ON r.parent_id = f.run_id)
SELECT f.top, a.run_id, count(*),
  count(*) FILTER (WHERE a.outcome IS NULL AND s.status = 'running' AND s.attempt = a.number)
FROM family f JOIN qd_attempt a ON a.run_id = f.run_id JOIN qd_step s ON s.id = a.step_id
WHERE s.kind IN ('tool', 'verifier')
  AND (a.outcome IS NULL OR a.outcome NOT IN ('succeeded', 'failed', 'retry', 'yielded', 'given_back', 'parked')
       OR (a.resources ? 'seconds' AND (a.error->>'sent') IS DISTINCT FROM 'false'))
GROUP BY f.top, a.run_id;

-- name: effects_of_runs
-- Operations that each of these runs and the runs below it began: a key counts once, however often it was sent. What
-- undoes an effect has bounds of its own.
WITH RECURSIVE family(top, run_id) AS (
  SELECT u.id, u.id FROM unnest(%s::uuid[]) u(id)
  UNION ALL SELECT f.top, r.id FROM family f JOIN qd_run r ON r.parent_id = f.run_id)
SELECT f.top, count(*) FROM family f JOIN qd_operation o ON o.run_id = f.run_id JOIN qd_step s ON s.id = o.step_id
WHERE o.sends > 0 AND s.kind NOT IN ('compensation', 'compensation_check')
GROUP BY f.top;

-- name: operations_standing
SELECT business_key, run_id, status FROM qd_operation WHERE tenant_id = %s AND business_key = ANY(%s);

-- name: orphaned_operations
SELECT tenant_id, run_id, business_key FROM qd_orphaned_operations(%s);

-- name: due_timers
SELECT tenant_id, run_id, node FROM qd_due_timers(%s);

-- name: unpreferred
SELECT tenant_id, run_id, step_id, prefer_until, served FROM qd_unpreferred(%s);

-- name: next_timer
SELECT extract(epoch FROM qd_next_timer() - qd_now())::float8;

-- name: due_deadlines
SELECT tenant_id, run_id FROM qd_due_deadlines(%s);

-- name: due_cancels
SELECT tenant_id, run_id FROM qd_due_cancels(%s);

-- name: ensure_partitions
SELECT qd_ensure_partitions(%s, %s);

-- name: refresh_statistics
SELECT qd_refresh_statistics();
