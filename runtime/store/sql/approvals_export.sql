-- name: approvals_asked
-- Requests asked for in a time, oldest first, each with the bytes of what it shows: what a page of the export holds.
SELECT id, created_at, octet_length(shown) FROM qd_approval
WHERE (created_at, id) > (%(at)s, %(after)s) AND created_at < %(until)s ORDER BY created_at, id LIMIT %(limit)s;

-- name: approvals_whole
SELECT a.id, a.kind, a.subject_kind, a.subject_id, a.run_id, a.task_id, a.step_id, a.node, a.execution_version,
  coalesce(t.workflow_name, '') AS workflow, a.title, a.requested_by, a.created_at, a.deadline, a.state, a.version,
  a.supersedes_id, a.shown, a.payload_sha256, a.action_sha256, a.problem, a.target, a.target_version, a.risk, a.role,
  a.quorum, a.separation, a.on_timeout, a.start_within_seconds, a.start_by, a.decided_at, a.decided_by, a.closed_at,
  a.outcome_reason, a.editor
FROM qd_approval a LEFT JOIN qd_task t ON t.id = a.task_id WHERE a.id = ANY(%s) ORDER BY a.created_at, a.id;

-- name: approval_roots
-- The first proposal of the intent that each of these proposals belongs to.
WITH RECURSIVE up(id, root, supersedes_id) AS (
  SELECT id, id, supersedes_id FROM qd_approval WHERE id = ANY(%s)
  UNION ALL SELECT u.id, a.id, a.supersedes_id FROM up u JOIN qd_approval a ON a.id = u.supersedes_id)
SELECT id, root FROM up WHERE supersedes_id IS NULL;

-- name: approval_successors
SELECT supersedes_id, id FROM qd_approval WHERE supersedes_id = ANY(%s);

-- name: approvals_calls
SELECT request_id, node, tool, contract_sha256, business_key, arguments_sha256, arguments IS NOT NULL AS edited,
  operation_id, consumed_at FROM qd_approval_action WHERE request_id = ANY(%s) ORDER BY request_id, id;

-- name: approvals_said
SELECT request_id, decision, actor, for_actor, version, payload_sha256, comment, at FROM qd_approval_decision
WHERE request_id = ANY(%s) ORDER BY at, id;

-- name: approvals_reports
-- What services reported of the actions they carried out themselves; the last word on each.
SELECT DISTINCT ON (request_id) request_id, actor, details, at FROM qd_approval_note
WHERE request_id = ANY(%s) AND kind = 'report' ORDER BY request_id, id DESC;
