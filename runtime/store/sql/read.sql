-- name: read_task
SELECT t.id, t.workflow_name, v.number AS workflow_version, t.name, t.goal, t.request_key, t.payload_sha256, t.input,
  t.state, t.priority, t.pool, t.agent, s.key AS session, t.scope, t.success, t.retry, t.budget, t.timeout_seconds,
  t.scheduled_at, t.data_time, t.deadline, t.created_by, t.created_at,
  (SELECT min(r.started_at) FROM qd_run r WHERE r.task_id = t.id) AS started_at
FROM qd_task t JOIN qd_workflow_version v ON v.id = t.workflow_version_id LEFT JOIN qd_session s ON s.id = t.session_id
WHERE t.id = %s;

-- name: read_task_runs
SELECT id, status, reason, version, rerun_of_id, parent_id AS parent, created_at, started_at, finished_at
FROM qd_run WHERE task_id = %s ORDER BY created_at DESC, id DESC LIMIT 200;

-- name: read_run
SELECT {r.run}, r.rerun_of_id, r.parent_step_id, r.trace_id, t.workflow_name, v.number AS workflow_version,
  t.name AS task_name, t.created_by, m.sha256 AS manifest_sha256, v.workflow_id, r.parent_id, r.budget::text,
  t.scope::text, t.payload_sha256, convert_from(m.body, 'UTF8')::jsonb->>'tools' AS tools
FROM qd_run r JOIN qd_task t ON t.id = r.task_id JOIN qd_workflow_version v ON v.id = r.workflow_version_id
  JOIN qd_manifest m ON m.id = r.manifest_id
WHERE r.id = %s;

-- name: read_run_output
-- What a run's last move says of its output, and the output itself while it is kept and small.
SELECT e.output_sha256, e.payload->>'output_error' AS error, a.id AS artifact_id,
  CASE WHEN a.size <= %(most)s THEN a.content END AS content FROM qd_event e
LEFT JOIN qd_artifact a ON a.id = (e.payload->>'artifact_id')::uuid
WHERE e.run_id = %(run)s AND e.type IN ('RUN_COMPLETED', 'RUN_PARTIALLY_COMPLETED') ORDER BY e.seq DESC LIMIT 1;

-- name: read_run_seq
-- The range of events there is: the oldest kept and the newest given out; and whether steps are open.
SELECT r.seq, r.version, r.status, r.n_open, r.workflow_version_id, (SELECT e.seq FROM qd_event e WHERE e.run_id = r.id ORDER BY e.seq LIMIT 1) AS first
FROM qd_run r WHERE r.id = %s;

-- name: read_run_steps
-- Run and steps in one statement, hence in one snapshot: the steps are exactly those of the run's seq.
SELECT r.seq AS run_seq, r.version AS run_version, r.status AS run_status, r.workflow_version_id, qd_now() AS now, {s.step}
FROM qd_run r LEFT JOIN qd_step s ON s.run_id = r.id AND NOT s.superseded
WHERE r.id = %s ORDER BY s.created_at, s.id;

-- name: read_steps_page
-- The same a page at a time, and of every execution version when asked: of those there may be any number.
SELECT r.seq AS run_seq, qd_now() AS now, {s.step}
FROM qd_run r LEFT JOIN qd_step s ON s.run_id = r.id AND (%(all)s OR NOT s.superseded)
  AND (%(at)s::timestamptz IS NULL OR (s.created_at, s.id) > (%(at)s, %(last)s::uuid))
WHERE r.id = %(run)s ORDER BY s.created_at, s.id LIMIT %(limit)s;

-- name: read_step
SELECT {s.step}, r.status AS run_status, r.version AS run_version, r.task_id, r.workflow_version_id, qd_now() AS now
FROM qd_step s JOIN qd_run r ON r.id = s.run_id WHERE s.id = %s;

-- name: read_step_versions
-- The newest of them.
SELECT * FROM (SELECT id, execution_version, status, cause, superseded, created_at, finished_at
  FROM qd_step WHERE run_id = %s AND node = %s ORDER BY execution_version DESC LIMIT 500) v ORDER BY execution_version;

-- name: read_attempts
-- Newest first, below a number.
SELECT number, owner_epoch, worker_session_id, started_at, finished_at, outcome, error, input_sha256, output_sha256,
  resources
FROM qd_attempt WHERE run_id = %(run)s AND step_id = %(step)s AND number < %(below)s ORDER BY number DESC LIMIT %(limit)s;

-- name: read_attempt_input
-- The newest attempt that called something, or the one that is asked for.
SELECT number, input_sha256, started_at FROM qd_attempt
WHERE run_id = %(run)s AND step_id = %(step)s AND input_sha256 IS NOT NULL
  AND (%(attempt)s::int IS NULL OR number = %(attempt)s) ORDER BY number DESC LIMIT 1;

-- name: read_payload_by_hash
SELECT payload FROM qd_operation WHERE run_id = %s AND payload_sha256 = %s LIMIT 1;

-- name: outputs_then
-- What nodes had come to at a time, in the execution versions of then; an output larger than asked for is left out.
SELECT DISTINCT ON (s.node) s.node, s.status, s.error, CASE WHEN coalesce(length(c.output), a.size) <= %(most)s
  THEN coalesce(c.output, a.content) END, c.output_sha256 IS NOT NULL
FROM qd_step s
LEFT JOIN qd_checkpoint c ON c.run_id = s.run_id AND c.node = s.node AND c.execution_version = s.execution_version
LEFT JOIN qd_artifact a ON a.id = c.artifact_id
WHERE s.run_id = %(run)s AND s.node = ANY(%(nodes)s) AND s.created_at <= %(at)s
ORDER BY s.node, s.execution_version DESC;

-- name: read_checkpoint
SELECT c.kind, c.run_seq, c.attempt, c.input_sha256, c.output, c.output_sha256, c.artifact_id, c.adopted_from,
  c.created_at, a.size AS artifact_size, a.media_type AS artifact_media_type
FROM qd_checkpoint c LEFT JOIN qd_artifact a ON a.id = c.artifact_id
WHERE c.run_id = %s AND c.node = %s AND c.execution_version = %s;

-- name: read_step_operations
SELECT id, business_key, status, version, sends, external_ref, intended_at, sent_at, settled_at
FROM qd_operation WHERE run_id = %s AND step_id = %s ORDER BY id LIMIT 500;

-- name: step_forced
-- Who marked a step as succeeded by hand, who asked for it, why, and with what evidence.
SELECT actor, payload->>'asked_by' AS asked_by, reason, payload->>'evidence' AS evidence, from_status, occurred_at AS at
FROM qd_event WHERE run_id = %s AND step_id = %s AND type = 'STEP_FORCED' ORDER BY seq DESC LIMIT 1;

-- name: steps_by_hand
-- How many steps of each run of a page a person forced, in whatever version, or skipped as they are now; entered by the
-- runs. The mark of force outlives a rerun.
SELECT run_id, count(*) FILTER (WHERE forced)::int AS forced, count(*) FILTER (WHERE NOT forced)::int AS skipped
FROM qd_step WHERE run_id = ANY(%s) AND (forced OR (NOT superseded AND status = 'skipped' AND cause = 'user'))
GROUP BY run_id;

-- name: read_events
SELECT seq, type, step_id, node, execution_version, attempt, owner_epoch, version, from_status, to_status, cause,
  actor, reason, payload, input_sha256, output_sha256, manifest_id, schema_version, occurred_at
FROM qd_event WHERE run_id = %s AND seq > %s ORDER BY seq LIMIT %s;

-- name: read_last_event
-- The newest event of a run, or of one of its steps among the run's newest.
SELECT seq, type, node, step_id, from_status, to_status, cause, actor, reason, occurred_at FROM (
  SELECT * FROM qd_event WHERE run_id = %(run)s ORDER BY seq DESC LIMIT 500) e
WHERE %(step)s::uuid IS NULL OR step_id = %(step)s ORDER BY seq DESC LIMIT 1;

-- name: read_operation
SELECT o.id, o.business_key, o.payload, o.payload_sha256, v.name AS tool, v.number AS tool_version, o.recovery, o.run_id,
  o.step_id, o.execution_version, o.attempt, o.owner_epoch, o.status, o.version, o.sends, o.requester, o.external_ref,
  o.response, o.response_sha256, o.error, o.next_query_at, o.intended_at, o.sent_at, o.settled_at, o.observed_at,
  coalesce(o.queries, 0) AS queries, o.queried_at, o.finding, s.kind
FROM qd_operation o JOIN qd_tool_version v ON v.id = o.tool_version_id JOIN qd_step s ON s.id = o.step_id WHERE o.id = %s;

-- name: read_artifact
SELECT id, sha256, size, media_type, created_by, created_at, expires_at, content IS NULL AS purged
FROM qd_artifact WHERE id = %s;

-- name: read_artifact_content
SELECT content, media_type, sha256 FROM qd_artifact WHERE id = %s;

-- name: read_workers
-- Sessions that live, and those that ended within the last hour.
SELECT id, host, pid, pools, slots, code_version, started_at, lease_until, beat_at, busy, progress_seq, cpu_seconds AS cpu_s,
  rss_bytes, ended_at, end_reason, ended_at IS NULL AND lease_until > qd_now() AS alive
FROM qd_worker_session WHERE ended_at IS NULL OR ended_at > qd_now() - interval '1 hour'
ORDER BY started_at DESC LIMIT 500;

-- name: steps_in_hand
-- The tenant's steps as the heartbeats of their workers showed them; what has ended since is left out.
SELECT h.session_id, s.run_id, s.id AS step_id, s.node, s.attempt, s.started_at, h.beat_at, h.call
FROM qd_steps_in_hand() h JOIN qd_step s ON s.id = h.step_id AND s.status = 'running'
  AND s.worker_session_id = h.session_id AND s.attempt = (h.call->>'attempt')::int
WHERE %(step)s::uuid IS NULL OR s.id = %(step)s::uuid ORDER BY s.started_at, s.id;

-- name: read_workflows
SELECT w.id, w.name, w.description, w.created_at, max(v.number) AS newest, count(v.id) AS versions
FROM qd_workflow w LEFT JOIN qd_workflow_version v ON v.workflow_id = w.id
WHERE w.name > %s GROUP BY w.id ORDER BY w.name LIMIT %s;

-- name: read_workflow_versions
SELECT v.id, v.number, v.spec_sha256, v.created_by, v.created_at, w.id AS workflow_id, w.name
FROM qd_workflow w JOIN qd_workflow_version v ON v.workflow_id = w.id
WHERE w.name = %(name)s AND v.number < %(below)s ORDER BY v.number DESC LIMIT %(limit)s;

-- name: read_workflow_version
SELECT v.id, v.number, v.spec, v.spec_sha256, v.created_by, v.created_at, w.id AS workflow_id, w.name
FROM qd_workflow w JOIN qd_workflow_version v ON v.workflow_id = w.id WHERE w.name = %s AND v.number = %s;

-- name: read_tools
SELECT id, name, number, contract, contract_sha256, side_effect, recovery, created_by, created_at, retired_at
FROM qd_tool_version WHERE (name, number) > (%s, %s) ORDER BY name, number LIMIT %s;

-- name: read_whole_tools
-- So many tools by name, each with every version.
SELECT id, name, number, contract, contract_sha256, side_effect, recovery, created_by, created_at, retired_at
FROM qd_tool_version
WHERE name IN (SELECT DISTINCT name FROM qd_tool_version WHERE name > %(after)s ORDER BY name LIMIT %(limit)s)
ORDER BY name, number;

-- name: read_outcomes
SELECT o.id, o.task_id, o.run_id, v.name AS verifier, v.number AS verifier_version, v.method, o.verdict, o.criterion,
  o.decided_by, o.decided_at,
  (SELECT coalesce(array_agg(c.evidence_id ORDER BY c.id), '{}') FROM qd_citation c WHERE c.outcome_id = o.id) AS evidence
FROM qd_outcome o JOIN qd_verifier v ON v.id = o.verifier_id WHERE o.task_id = %s ORDER BY o.id DESC LIMIT 200;

-- name: read_evidence
-- Newest first, below an id.
SELECT id, run_id, step_id, criterion, source, content, content_sha256, observed_at
FROM qd_evidence WHERE task_id = %(task)s AND (%(below)s::uuid IS NULL OR id < %(below)s) ORDER BY id DESC LIMIT %(limit)s;

-- name: success_of_runs
-- The newest Outcome of each run by the verifier that its task's criterion cites, and where its evidence came from.
SELECT r.id AS run_id, t.success::text, o.id, o.verdict, o.verifier, o.decided_at,
  (SELECT array_agg(DISTINCT e.source) FROM qd_citation c JOIN qd_evidence e ON e.id = c.evidence_id
   WHERE c.outcome_id = o.id) AS sources
FROM qd_run r JOIN qd_task t ON t.id = r.task_id LEFT JOIN LATERAL (
  SELECT x.id, x.verdict, x.decided_at, v.name || '@' || v.number AS verifier
  FROM qd_outcome x JOIN qd_verifier v ON v.id = x.verifier_id
  WHERE x.task_id = t.id AND x.run_id = r.id
    AND coalesce(t.success->>'verifier', v.name || '@' || v.number) = v.name || '@' || v.number
  ORDER BY x.id DESC LIMIT 1) o ON true
WHERE r.id = ANY(%s) AND t.success <> '{}';

-- name: read_children
-- The newest runs of tasks that a run submitted.
SELECT r.id, r.task_id, r.status, t.workflow_name AS workflow, t.name FROM qd_run r JOIN qd_task t ON t.id = r.task_id
WHERE r.parent_id = %(run)s ORDER BY r.id DESC LIMIT %(limit)s;

-- name: read_members
SELECT m.id, m.user_id, u.username, m.role, m.extra_verbs, m.created_at, m.ended_at
FROM qd_membership m JOIN auth_user u ON u.id = m.user_id WHERE m.ended_at IS NULL
  AND (%(after)s::text IS NULL OR u.username > %(after)s) ORDER BY u.username LIMIT %(limit)s;

-- name: read_tokens
SELECT k.id, u.username, k.name, k.verbs, k.created_at, k.expires_at, k.revoked_at, k.last_used_at,
  k.expires_at <= qd_now() AS expired
FROM qd_api_token k JOIN auth_user u ON u.id = k.user_id
WHERE (%(user)s::int IS NULL OR k.user_id = %(user)s) AND (%(before)s::uuid IS NULL OR k.id < %(before)s)
ORDER BY k.id DESC LIMIT %(limit)s;

-- name: search_ids
-- What this id is, in this tenant.
SELECT 'task' AS kind, id, NULL::uuid AS run_id, id AS task_id, coalesce(nullif(name, ''), workflow_name) AS label
  FROM qd_task WHERE id = %(id)s
UNION ALL SELECT 'run', r.id, r.id, r.task_id, t.workflow_name FROM qd_run r JOIN qd_task t ON t.id = r.task_id
  WHERE r.id = %(id)s
UNION ALL SELECT 'step', s.id, s.run_id, NULL, s.node FROM qd_step s WHERE s.id = %(id)s
UNION ALL SELECT 'operation', o.id, o.run_id, NULL, o.business_key FROM qd_operation o WHERE o.id = %(id)s
UNION ALL SELECT 'artifact', a.id, NULL, NULL, a.media_type FROM qd_artifact a WHERE a.id = %(id)s;

-- name: search_business_keys
-- The key itself by its index; a part of one (an order number) among the newest operations.
SELECT DISTINCT ON (id) 'operation' AS kind, id, run_id, NULL::uuid AS task_id, business_key AS label FROM (
  SELECT id, run_id, business_key FROM qd_operation WHERE business_key = %(text)s
  UNION ALL
  SELECT * FROM (SELECT id, run_id, business_key FROM qd_operation ORDER BY id DESC LIMIT %(window)s) newest
  WHERE position(lower(%(text)s) in lower(business_key)) > 0) o
LIMIT %(limit)s;

-- name: search_tasks
-- Names and request keys among the newest tasks: a bounded walk down the primary key, never a scan of everything.
SELECT 'task' AS kind, t.id, (SELECT r.id FROM qd_run r WHERE r.task_id = t.id ORDER BY r.id DESC LIMIT 1) AS run_id,
  t.id AS task_id, coalesce(nullif(t.name, ''), t.workflow_name) AS label
FROM (SELECT id, name, workflow_name, request_key FROM qd_task ORDER BY id DESC LIMIT %(window)s) t
WHERE position(lower(%(text)s) in lower(t.name)) > 0 OR t.request_key = %(text)s
   OR position(lower(%(text)s) in lower(t.workflow_name)) > 0
ORDER BY t.id DESC LIMIT %(limit)s;

-- name: search_workflows
SELECT 'workflow' AS kind, id, NULL::uuid AS run_id, NULL::uuid AS task_id, name AS label
FROM qd_workflow WHERE position(lower(%(text)s) in lower(name)) > 0 ORDER BY name LIMIT %(limit)s;

-- name: recovery_point
-- A run as recovery reads it, in one statement: one moment, complete up to its seq.
SELECT r.id AS run_id, r.seq AS run_seq, r.status, r.version, r.task_id, r.deadline, r.cancel_requested, r.cancel_by, r.paused,
  r.attention, w.name AS workflow, v.number AS workflow_version, encode(v.spec_sha256, 'hex') AS workflow_sha256,
  encode(m.sha256, 'hex') AS manifest_sha256, convert_from(m.body, 'UTF8')::jsonb AS manifest, qd_now() AS at,
  (SELECT jsonb_agg(jsonb_build_object(
     'node', s.node, 'kind', s.kind, 'execution_version', s.execution_version, 'status', s.status, 'cause', s.cause,
     'attempt', s.attempt, 'owner_epoch', s.owner_epoch, 'timer', s.not_before, 'worker_session', s.worker_session_id,
     'lease_until', l.lease_until, 'dependencies', jsonb_build_object('pending', s.deps_left, 'ok', s.deps_ok,
       'branch_skipped', s.deps_bskip, 'failed', s.deps_err + s.deps_bad),
     'result', CASE WHEN c.run_id IS NOT NULL THEN jsonb_build_object('kind', c.kind, 'run_seq', c.run_seq,
       'input_sha256', encode(c.input_sha256, 'hex'), 'output_sha256', encode(c.output_sha256, 'hex'),
       'artifact_id', c.artifact_id, 'adopted_from', c.adopted_from) END) ORDER BY s.created_at, s.id)
   FROM qd_step s
   LEFT JOIN qd_checkpoint c ON c.run_id = s.run_id AND c.node = s.node AND c.execution_version = s.execution_version
   LEFT JOIN qd_worker_session l ON l.id = s.worker_session_id
   WHERE s.run_id = r.id AND NOT s.superseded) AS steps,
  (SELECT coalesce(jsonb_agg(jsonb_build_object(
     'operation_id', o.id, 'business_key', o.business_key, 'status', o.status, 'recovery', o.recovery, 'sends', o.sends,
     'payload_sha256', encode(o.payload_sha256, 'hex'), 'external_ref', o.external_ref, 'owner_epoch', o.owner_epoch,
     'next_query_at', o.next_query_at) ORDER BY o.intended_at, o.id), '[]')
   FROM qd_operation o WHERE o.run_id = r.id) AS operations,
  (SELECT coalesce(jsonb_agg(jsonb_build_object('approval_id', a.id, 'state', a.state, 'version', a.version,
     'payload_sha256', encode(a.payload_sha256, 'hex')) ORDER BY a.id), '[]')
   FROM qd_approval a WHERE a.run_id = r.id) AS approvals
FROM qd_run r JOIN qd_workflow_version v ON v.id = r.workflow_version_id JOIN qd_workflow w ON w.id = v.workflow_id
JOIN qd_manifest m ON m.id = r.manifest_id WHERE r.id = %s;
