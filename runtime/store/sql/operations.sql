-- name: insert_operations
INSERT INTO qd_operation (id, business_key, payload, payload_sha256, tool_version_id, recovery, run_id, step_id,
  execution_version, attempt, owner_epoch, requester, tenant_id, status, version, sends, intended_at)
SELECT u.*, %s::uuid, 'intended', 1, 0, %s::timestamptz
FROM unnest(%s::uuid[], %s::text[], %s::bytea[], %s::bytea[], %s::uuid[], %s::text[], %s::uuid[], %s::uuid[], %s::int[],
            %s::int[], %s::int[], %s::text[]) u
ON CONFLICT (tenant_id, business_key) DO NOTHING RETURNING id;

-- name: operations_by_key
-- Locks in key order, after the runs and steps (engine.md 1).
SELECT {operation}, response FROM qd_operation WHERE tenant_id = %s AND business_key = ANY(%s) ORDER BY business_key FOR UPDATE;

-- name: operations_of_steps
SELECT {operation} FROM qd_operation WHERE tenant_id = %s AND step_id = ANY(%s) ORDER BY business_key FOR UPDATE;

-- name: update_operations
-- Compare-and-set on (status, version).
UPDATE qd_operation o SET status = u.status, version = u.version, sends = u.sends, run_id = u.run_id, step_id = u.step_id,
  execution_version = u.execution_version, attempt = u.attempt, owner_epoch = u.owner_epoch,
  external_ref = u.external_ref, response = u.response, response_sha256 = u.response_sha256, error = u.error::jsonb,
  next_query_at = u.next_query_at, sent_at = u.sent_at, settled_at = u.settled_at
FROM unnest(%s::uuid[], %s::text[], %s::int[], %s::text[], %s::int[], %s::int[], %s::uuid[], %s::uuid[], %s::int[],
            %s::int[], %s::int[], %s::text[], %s::bytea[], %s::bytea[], %s::text[], %s::timestamptz[], %s::timestamptz[],
            %s::timestamptz[])
  u(id, old_status, old_version, status, version, sends, run_id, step_id, execution_version, attempt, owner_epoch,
    external_ref, response, response_sha256, error, next_query_at, sent_at, settled_at)
WHERE o.id = u.id AND o.status = u.old_status AND o.version = u.old_version;

-- name: verdict_insert_evidence
INSERT INTO qd_evidence (id, tenant_id, task_id, run_id, step_id, criterion, source, content, content_sha256, observed_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: verdict_insert_outcome
INSERT INTO qd_outcome (id, tenant_id, task_id, run_id, verifier_id, verdict, criterion, decided_by, decided_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: verdict_insert_citation
INSERT INTO qd_citation (id, tenant_id, outcome_id, evidence_id) VALUES (%s, %s, %s, %s);

-- name: operation_question
-- What asking a tool about an operation needs; the attempt is the one that sent it last.
SELECT o.id AS operation_id, o.business_key, o.payload, o.run_id, o.step_id, o.external_ref, o.intended_at, o.sent_at,
  greatest(o.owner_epoch, s.owner_epoch) AS epoch, v.contract, a.outcome, a.finished_at, w.ended_at AS session_ended_at,
  w.end_reason, qd_now() AS now, f.name AS workflow, o.finding
FROM qd_operation o JOIN qd_tool_version v ON v.id = o.tool_version_id JOIN qd_step s ON s.id = o.step_id
JOIN qd_run r ON r.id = o.run_id JOIN qd_workflow_version fv ON fv.id = r.workflow_version_id
JOIN qd_workflow f ON f.id = fv.workflow_id
LEFT JOIN qd_attempt a ON a.run_id = o.run_id AND a.step_id = o.step_id AND a.number = o.attempt
LEFT JOIN qd_worker_session w ON w.id = a.worker_session_id
WHERE o.id = %s;

-- name: due_queries
SELECT tenant_id, operation_id FROM qd_due_queries(%s);

-- name: claim_queries
-- Whoever asks takes them for a while; when it never comes back, they are due again by themselves.
UPDATE qd_operation SET next_query_at = qd_now() + make_interval(secs => %s)
WHERE id = ANY(%s) AND status IN ('unknown', 'needs_human') AND next_query_at <= qd_now() RETURNING id;

-- name: operation_place
-- Where an operation belongs, and what was asked about it so far.
SELECT o.run_id, s.node, o.business_key, coalesce(o.queries, 0), o.finding FROM qd_operation o
JOIN qd_step s ON s.id = o.step_id WHERE o.id = %s;

-- name: note_query
UPDATE qd_operation SET queries = coalesce(queries, 0) + 1, queried_at = qd_now(), finding = %s,
  observed_at = CASE WHEN %s THEN qd_now() ELSE observed_at END, next_query_at = %s
WHERE id = %s;

-- name: hold_query
-- The question was kept back: nobody was asked.
UPDATE qd_operation SET finding = 'held', next_query_at = %s WHERE id = %s AND status IN ('unknown', 'needs_human');

-- name: held_queries_soon
-- A stop ended: what was kept back is looked at again.
UPDATE qd_operation SET next_query_at = qd_now()
WHERE finding = 'held' AND next_query_at > qd_now() AND status IN ('unknown', 'needs_human');

-- name: query_pause
-- How long until it may be asked about again (seconds): something was asked within the pause, or is about to be.
SELECT max(p.seconds)::float8 FROM (
  SELECT extract(epoch FROM o.queried_at - qd_now()) + %(pause)s AS seconds FROM qd_operation o WHERE o.id = %(id)s
  UNION ALL
  SELECT %(pause)s FROM qd_operation o WHERE o.id = %(id)s AND o.next_query_at <= qd_now()
  UNION ALL
  SELECT extract(epoch FROM max(e.occurred_at) - qd_now()) + %(pause)s FROM qd_event e
  WHERE e.run_id = %(run)s AND e.seq > %(seq)s AND e.type = 'QUERY_REQUESTED' AND e.payload->>'operation_id' = %(id)s::text
) p;

-- name: query_soon
-- Asks again at once what is not settled and can be asked about.
UPDATE qd_operation SET next_query_at = qd_now() WHERE id = ANY(%s) AND status IN ('unknown', 'needs_human');

-- name: tool_version_contract
SELECT contract FROM qd_tool_version WHERE id = %s;

-- name: attempt_epoch
SELECT owner_epoch FROM qd_attempt WHERE run_id = %s AND step_id = %s AND number = %s;

-- name: inbox_callback
-- A tool's report on an attempt, once per version of it.
INSERT INTO qd_inbox (id, tenant_id, source, message_id, payload, payload_sha256, received_at, handled_at, result)
VALUES (%s, %s, %s, %s, %s, %s, qd_now(), qd_now(), 'taken')
ON CONFLICT (tenant_id, source, message_id) DO NOTHING RETURNING id;

-- name: inbox_callback_sha256
SELECT payload_sha256 FROM qd_inbox WHERE tenant_id = %s AND source = %s AND message_id = %s;

-- name: forget_answers
-- Only of what is settled for good; its hash stays and says that there was one.
UPDATE qd_operation SET response = NULL WHERE id IN (
  SELECT id FROM qd_operation WHERE response IS NOT NULL AND status IN ('succeeded', 'compensated', 'refused', 'written_off')
    AND settled_at < qd_now() - make_interval(secs => %s * 86400) ORDER BY id LIMIT %s);
