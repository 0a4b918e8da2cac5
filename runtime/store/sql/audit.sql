-- name: audit_lock_head
-- The newest link, locked; the transaction's last lock (engine.md 1, 9).
SELECT number, sha256 FROM qd_audit_head WHERE tenant_id = %s FOR NO KEY UPDATE;

-- name: audit_make_head
INSERT INTO qd_audit_head (tenant_id, number, sha256) VALUES (%s, 0, %s) ON CONFLICT (tenant_id) DO NOTHING;

-- name: audit_move_head
UPDATE qd_audit_head SET number = %s, sha256 = %s WHERE tenant_id = %s AND number = %s;

-- name: audit_insert
INSERT INTO qd_audit_entry (tenant_id, number, at, actor, verb, subject_kind, subject_id, run_id, result, reason, body,
  previous_sha256, sha256)
SELECT %s::uuid, u.* FROM unnest(%s::bigint[], %s::timestamptz[], %s::text[], %s::text[], %s::text[], %s::text[],
  %s::uuid[], %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bytea[]) u;

-- name: audit_read
-- The chain in order, a page at a time.
SELECT number, at, actor, verb, subject_kind, subject_id, run_id, result, reason, body, previous_sha256, sha256
  FROM qd_audit_entry WHERE tenant_id = %s AND number > %s AND number <= %s ORDER BY number LIMIT %s;

-- name: audit_head
SELECT number, sha256 FROM qd_audit_head WHERE tenant_id = %s;

-- name: audit_above
-- Entries with a number no chain gives out: below one, or above the head.
SELECT number FROM qd_audit_entry WHERE tenant_id = %s AND (number < 1 OR number > %s) ORDER BY number LIMIT 20;

-- name: audit_first_since
-- The number of the first entry at or after a time, one above the newest when there is none: the chain halved again and
-- again, since numbers have no gaps and follow the time.
WITH RECURSIVE half (lo, hi) AS (
  SELECT 0::bigint, (SELECT coalesce(max(number), 0) + 1 FROM qd_audit_entry)
  UNION ALL
  SELECT CASE WHEN m.late THEN h.lo ELSE m.number END, CASE WHEN m.late THEN m.number ELSE h.hi END
  FROM half h, LATERAL (
    SELECT (h.lo + h.hi) / 2 AS number,
      coalesce((SELECT e.at >= %(since)s FROM qd_audit_entry e WHERE e.number = (h.lo + h.hi) / 2), false) AS late) m
  WHERE h.hi - h.lo > 1)
SELECT min(hi) FROM half;
