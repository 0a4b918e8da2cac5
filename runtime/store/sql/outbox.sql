-- name: due_messages
SELECT tenant_id, id FROM qd_due_messages(%s);

-- name: messages_due
-- What of these is still due, for whoever brings them to their destinations; old: its budget of time is spent.
SELECT id, topic, payload, attempts > 0, created_at, qd_now() - created_at > make_interval(secs => %s) FROM qd_outbox
WHERE id = ANY(%s) AND sent_at IS NULL AND (claimed_until IS NULL OR claimed_until <= qd_now())
ORDER BY attempts > 0, created_at, id;

-- name: messages_wait
-- They wait for their destination: no try of their own is spent.
UPDATE qd_outbox SET claimed_until = qd_now() + make_interval(secs => %s), error = coalesce(%s, error)
WHERE id = ANY(%s) AND sent_at IS NULL AND (claimed_until IS NULL OR claimed_until <= qd_now());

-- name: message_claim
-- Whoever claims it sends it; a sender that dies leaves it to the next after the claim's time.
UPDATE qd_outbox SET claimed_until = qd_now() + make_interval(secs => %s), attempts = attempts + 1
WHERE id = %s AND sent_at IS NULL AND (claimed_until IS NULL OR claimed_until <= qd_now())
RETURNING topic, payload, attempts, event_id, qd_now() - created_at > make_interval(secs => %s);

-- name: message_done
-- Only whoever holds the claim marks: another one may have taken it over, and will mark its own send.
UPDATE qd_outbox SET sent_at = qd_now(), error = %s WHERE id = %s AND sent_at IS NULL AND attempts = %s;

-- name: message_told
-- Those mails of a message that went, by their language: the next try leaves them out.
UPDATE qd_outbox SET payload = payload || jsonb_build_object('told', coalesce(payload->'told', '[]'::jsonb) || %s::jsonb)
WHERE id = %s AND sent_at IS NULL AND attempts = %s;

-- name: message_failed
UPDATE qd_outbox SET error = %s, claimed_until = qd_now() + make_interval(secs => %s)
WHERE id = %s AND sent_at IS NULL AND attempts = %s;

-- name: addresses_of_role
-- Members of a role who have an address.
SELECT DISTINCT u.email FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active AND u.email <> '' AND m.role = %s ORDER BY u.email LIMIT 100;

-- name: addresses_of_member
-- A member by name, who has an address.
SELECT u.email FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active AND u.email <> '' AND u.username = %s;

-- name: addresses_of_owner
-- Members who are named, or have the role that is named, as a tool's owner.
SELECT DISTINCT u.email FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active AND u.email <> '' AND %(owner)s::text IN (m.role, u.username)
ORDER BY u.email LIMIT 100;

-- name: outbox_insert
INSERT INTO qd_outbox (id, tenant_id, event_id, topic, payload, created_at, attempts) VALUES (%s, %s, %s, %s, %s::jsonb, %s, 0);

-- name: quarantine_insert
INSERT INTO qd_quarantine (id, tenant_id, outbox_id, event_id, topic, schema_version, payload, reason, attempts, created_at,
  quarantined_at, close_reason)
SELECT %s, o.tenant_id, o.id, o.event_id, o.topic, o.schema_version, o.payload, %s, o.attempts, o.created_at, qd_now(), ''
FROM qd_outbox o WHERE o.id = %s AND o.sent_at IS NULL AND o.attempts = %s
ON CONFLICT (tenant_id, event_id) WHERE closed_at IS NULL DO NOTHING;

-- name: quarantined_lock
SELECT outbox_id, event_id, topic, resolution, closed_by FROM qd_quarantine WHERE id = %s FOR NO KEY UPDATE;

-- name: quarantined_close
UPDATE qd_quarantine SET resolution = %s, closed_at = qd_now(), closed_by = %s, close_reason = %s WHERE id = %s;

-- name: quarantined_close_topic
UPDATE qd_quarantine SET resolution = %s, closed_at = qd_now(), closed_by = %s, close_reason = %s
WHERE topic = %s AND closed_at IS NULL RETURNING id, outbox_id, event_id;

-- name: messages_again
UPDATE qd_outbox SET sent_at = NULL, error = NULL, attempts = 0, claimed_until = NULL, created_at = qd_now()
WHERE id = ANY(%s);

-- name: replayed_messages
-- Of messages that were replayed from the quarantine: how many there are, went since, and are back in it; when the last
-- one went.
SELECT count(*), count(*) FILTER (WHERE (o.id IS NULL OR o.sent_at IS NOT NULL) AND n.id IS NULL),
  count(n.id), max(o.sent_at) FILTER (WHERE n.id IS NULL)
FROM qd_quarantine q LEFT JOIN qd_outbox o ON o.id = q.outbox_id
LEFT JOIN LATERAL (SELECT a.id FROM qd_quarantine a WHERE a.tenant_id = q.tenant_id AND a.event_id = q.event_id
                   AND a.quarantined_at > q.closed_at LIMIT 1) n ON true
WHERE q.id = ANY(%s);

-- name: message_again
-- The same row and event_id: a receiver that had it after all recognises it.
UPDATE qd_outbox SET sent_at = NULL, error = NULL, attempts = 0, claimed_until = NULL, created_at = qd_now() WHERE id = %s;

-- name: outbox_numbers
SELECT count(*), extract(epoch FROM qd_now() - min(created_at))::float8, count(*) FILTER (WHERE attempts > 0),
  (SELECT count(*) FROM qd_quarantine WHERE closed_at IS NULL)
FROM qd_outbox WHERE sent_at IS NULL;

-- name: stranded_runs
SELECT tenant_id, run_id FROM qd_stranded_runs(%s, %s);
