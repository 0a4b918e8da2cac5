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
