-- name: stream_horizon
-- Transactions before this one have ended: what they wrote is seen by every later statement, or was rolled back.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint;

-- name: stream_events
-- The tenant's events behind a position, of transactions before another one.
SELECT xact, run_id, seq, type, step_id, node, execution_version, attempt, owner_epoch, version, from_status, to_status,
  cause, actor, reason, payload, input_sha256, output_sha256, manifest_id, schema_version, occurred_at
FROM qd_event WHERE xact >= %(xact)s AND xact < %(upto)s
  AND (xact, run_id, seq) > (%(xact)s, coalesce(%(run_id)s::uuid, '00000000-0000-0000-0000-000000000000'), %(seq)s)
  AND (%(types)s::text[] IS NULL OR type = ANY(%(types)s))
ORDER BY xact, run_id, seq LIMIT %(most)s;

-- name: subscriber_position
SELECT xact, run_id, seq FROM qd_subscriber_cursor WHERE name = %s;

-- name: subscriber_begins
-- Before the first event there is; one that stands beyond all that was ever written begins again too.
INSERT INTO qd_subscriber_cursor (name, xact, run_id, seq, moved_at)
SELECT %(name)s, least(coalesce(min(e.xact), %(horizon)s), %(horizon)s), NULL, 0, qd_now() FROM qd_event e
ON CONFLICT (name) DO UPDATE SET xact = excluded.xact, run_id = NULL, seq = 0, moved_at = excluded.moved_at
WHERE qd_subscriber_cursor.xact > %(horizon)s;

-- name: subscriber_hold
-- Whoever holds it hands over; the others come back later.
SELECT xact, run_id, seq FROM qd_subscriber_cursor WHERE name = %s FOR NO KEY UPDATE SKIP LOCKED;

-- name: subscriber_moves
UPDATE qd_subscriber_cursor SET xact = %s, run_id = %s, seq = %s, moved_at = qd_now() WHERE name = %s;

-- name: subscriber_stands
-- Right before an event that failed; since when it has not moved is told by moved_at.
UPDATE qd_subscriber_cursor SET xact = %s, run_id = %s, seq = %s WHERE name = %s;

-- name: stuck_subscriber
-- The event before which a cursor has stood for so long.
SELECT e.run_id, e.seq, e.type FROM qd_subscriber_cursor c JOIN qd_event e ON e.xact = c.xact
  AND (e.run_id, e.seq) > (coalesce(c.run_id, '00000000-0000-0000-0000-000000000000'), c.seq)
WHERE c.name = %(name)s AND c.moved_at < qd_now() - make_interval(secs => %(old)s)
  AND e.occurred_at < qd_now() - make_interval(secs => %(old)s)
  AND (%(types)s::text[] IS NULL OR e.type = ANY(%(types)s))
ORDER BY e.run_id, e.seq LIMIT 1;
