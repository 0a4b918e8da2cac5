-- name: inbox_insert
-- Once per tenant, source and id; whoever sends it at the same time waits here for the first one's end.
INSERT INTO qd_inbox (id, tenant_id, source, message_id, payload, payload_sha256, run_id, step_id, name, correlation_id,
  received_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, qd_now())
ON CONFLICT (tenant_id, source, message_id) DO NOTHING RETURNING id;

-- name: inbox_message
SELECT id, payload_sha256, result FROM qd_inbox WHERE source = %s AND message_id = %s;

-- name: inbox_handled
UPDATE qd_inbox SET handled_at = qd_now(), result = %s, step_id = coalesce(%s, step_id) WHERE id = %s;

-- name: inbox_kept
-- Messages of a run that came before anybody waited for them, oldest first.
SELECT id, name, correlation_id, message_id FROM qd_inbox WHERE run_id = %s AND handled_at IS NULL ORDER BY received_at, id;

-- name: inbox_of_steps
-- What the steps waited for and got.
SELECT step_id, name, message_id, correlation_id, payload, received_at FROM qd_inbox
WHERE step_id = ANY(%s) AND result = 'delivered';

-- name: kept_signals
-- The next runs behind a cursor (a run's id), so many.
SELECT tenant_id, run_id FROM qd_kept_signals(%s, %s);

-- name: overdue_signals
SELECT tenant_id, run_id, node FROM qd_overdue_signals(%s);
