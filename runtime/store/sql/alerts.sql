-- name: insert_notice_target
INSERT INTO qd_notice_target (id, tenant_id, kind, address, rules, created_by, created_at)
VALUES (%s, %s, %s, %s, %s::jsonb, %s, qd_now())
ON CONFLICT (tenant_id, kind, address) WHERE removed_at IS NULL DO NOTHING RETURNING id;

-- name: remove_notice_target
UPDATE qd_notice_target SET removed_at = qd_now() WHERE id = %s AND removed_at IS NULL RETURNING id;

-- name: notice_targets
SELECT id, kind, address, rules FROM qd_notice_target WHERE removed_at IS NULL ORDER BY id LIMIT 100;

-- name: notice_target
SELECT kind, address FROM qd_notice_target WHERE id = %s AND removed_at IS NULL;

-- name: alert_unknown_operations
-- Effects nobody knows the outcome of, newest first, with the tool they were sent to.
SELECT o.id, o.run_id, o.business_key, v.name || '@' || v.number FROM qd_operation o
JOIN qd_tool_version v ON v.id = o.tool_version_id
WHERE o.status IN ('unknown', 'needs_human', 'partially_applied', 'compensation_failed') ORDER BY o.id DESC LIMIT 500;

-- name: alert_attention
SELECT r.id, t.workflow_name, r.attention->>'evidence' FROM qd_run r JOIN qd_task t ON t.id = r.task_id
WHERE r.status = 'needs_attention' ORDER BY r.created_at DESC LIMIT 500;

-- name: alert_failed_runs
-- Runs that failed lately and whose task no later run brought to a good end, with the first step that failed. One that a
-- person ended by a rejection is no news to anybody.
SELECT r.id, t.workflow_name, s.node, s.error->>'class', s.error->>'message'
FROM qd_run r JOIN qd_task t ON t.id = r.task_id
LEFT JOIN LATERAL (SELECT node, error FROM qd_step WHERE run_id = r.id AND status = 'failed' AND NOT superseded
                   ORDER BY finished_at LIMIT 1) s ON true
WHERE r.status = 'failed' AND r.finished_at > qd_now() - make_interval(secs => %s)
  AND (s.node IS NOT NULL OR r.reason = 'deadline')
  AND NOT EXISTS (SELECT FROM qd_run n WHERE n.task_id = r.task_id AND n.created_at > r.created_at
                  AND n.status IN ('completed', 'partially_completed'))
ORDER BY r.finished_at DESC LIMIT 500;

-- name: alert_old_steps
SELECT id, run_id, node, extract(epoch FROM qd_now() - queued_at)::float8 FROM qd_step
WHERE status = 'queued' AND claimable AND queued_at < qd_now() - make_interval(secs => %s) ORDER BY queued_at LIMIT 100;

-- name: alert_outbox_old
-- Messages that should long have left; one that waits for its next try counts too.
SELECT id, topic, error FROM qd_outbox WHERE sent_at IS NULL AND created_at < qd_now() - make_interval(secs => %s)
ORDER BY created_at LIMIT 100;

-- name: alert_quarantined
SELECT id, topic, reason FROM qd_quarantine WHERE closed_at IS NULL ORDER BY quarantined_at DESC LIMIT 100;

-- name: alert_lost_workers
-- Workers that went without a good-bye and were not replaced on their host.
SELECT w.id, w.host, w.pid, w.end_reason FROM qd_worker_session w
WHERE w.ended_at > qd_now() - interval '1 hour' AND w.end_reason IN ('lease_lost', 'process_died', 'no_progress')
  AND NOT EXISTS (SELECT FROM qd_worker_session n WHERE n.host = w.host AND n.started_at >= w.ended_at - interval '30 seconds'
                  AND n.id <> w.id AND n.ended_at IS NULL)
ORDER BY w.ended_at DESC LIMIT 100;

-- name: as_login
-- Until this transaction ends: the login itself instead of the role that its process took.
SELECT set_config('role', 'none', true);

-- name: alert_long_writes
-- Transactions that have written and do not end: streams of events are read only up to the oldest of them (engine.md 7).
SELECT pid, coalesce(nullif(application_name, ''), backend_type), coalesce(state, ''), xact_start,
  extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND backend_xid IS NOT NULL
  AND xact_start < clock_timestamp() - make_interval(secs => %s)
ORDER BY xact_start LIMIT 20;

-- name: alert_open_breakers
SELECT id, tool, error_class, failures FROM qd_breaker WHERE state <> 'closed' ORDER BY opened_at DESC LIMIT 200;

-- name: alerts_open
SELECT id, fingerprint, count, subjects, first_at, last_at FROM qd_alert WHERE closed_at IS NULL ORDER BY id FOR UPDATE;

-- name: alert_insert
INSERT INTO qd_alert (id, tenant_id, fingerprint, rule, severity, title, subjects, count, first_at, last_at)
VALUES (%s, %s, %s, %s, %s, %s, %s::jsonb, %s, %s, %s)
ON CONFLICT (tenant_id, fingerprint) WHERE closed_at IS NULL DO NOTHING;

-- name: alert_update
UPDATE qd_alert SET title = %s, subjects = %s::jsonb, count = %s, last_at = %s WHERE id = %s;

-- name: alert_widen
-- What a duty adds to an open alert is news: it is told again.
UPDATE qd_alert SET title = %s, subjects = %s::jsonb, count = %s, last_at = %s, notified_at = NULL WHERE id = %s;

-- name: alerts_close
UPDATE qd_alert SET closed_at = qd_now() WHERE id = ANY(%s) AND closed_at IS NULL;

-- name: alerts_to_tell
-- Alerts that have stood long enough; whoever marks them tells of them, once.
UPDATE qd_alert SET notified_at = qd_now()
WHERE closed_at IS NULL AND notified_at IS NULL AND first_at <= qd_now() - make_interval(secs => %s) RETURNING id, rule,
  fingerprint, count;

-- name: alert_for_message
SELECT id, rule, severity, title, subjects, count, first_at, last_at, closed_at FROM qd_alert WHERE id = %s;
