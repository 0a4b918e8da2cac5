-- name: insert_artifact
-- Content is stored once per tenant and hash; a reference to it is written afterwards (C2.3).
INSERT INTO qd_artifact (id, tenant_id, sha256, size, media_type, content, created_by, created_at, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, qd_now(), qd_now() + interval '7 days')
ON CONFLICT (tenant_id, sha256) DO NOTHING RETURNING id;

-- name: artifact_by_hash
-- Locks the row, so that content that was purged can be put back under its hash.
SELECT id, content IS NULL FROM qd_artifact WHERE sha256 = %s FOR NO KEY UPDATE;

-- name: restore_artifact
UPDATE qd_artifact SET content = %s, expires_at = qd_now() + interval '7 days' WHERE id = %s AND content IS NULL;

-- name: evidence_of_task
SELECT id FROM qd_evidence WHERE task_id = %s AND id = ANY(%s);

-- name: run_of_task
SELECT id, status, n_open_operations FROM qd_run WHERE id = %s AND task_id = %s;

-- name: verifier_named
SELECT id, method, revoked_at FROM qd_verifier WHERE name = %s AND number = %s;

-- name: insert_outcome
INSERT INTO qd_outcome (id, tenant_id, task_id, run_id, verifier_id, verdict, criterion, decided_by, decided_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, qd_now());

-- name: insert_citations
INSERT INTO qd_citation (id, tenant_id, outcome_id, evidence_id)
SELECT u.id, %s::uuid, %s::uuid, u.evidence FROM unnest(%s::uuid[], %s::uuid[]) u(id, evidence);

-- name: revoke_token
UPDATE qd_api_token SET revoked_at = qd_now() WHERE id = %s AND revoked_at IS NULL RETURNING user_id;

-- name: token_owner
SELECT user_id, revoked_at FROM qd_api_token WHERE id = %s FOR NO KEY UPDATE;

-- name: membership_of_user
SELECT id, role, extra_verbs FROM qd_membership WHERE user_id = %s AND ended_at IS NULL FOR NO KEY UPDATE;

-- name: insert_membership
INSERT INTO qd_membership (id, tenant_id, user_id, role, extra_verbs, created_at)
VALUES (%s, %s, %s, %s, %s::jsonb, qd_now())
ON CONFLICT (tenant_id, user_id) WHERE ended_at IS NULL DO NOTHING RETURNING id;

-- name: update_membership
UPDATE qd_membership SET role = %s, extra_verbs = %s::jsonb WHERE id = %s;

-- name: end_membership
UPDATE qd_membership SET ended_at = qd_now() WHERE id = %s AND ended_at IS NULL;

-- name: membership_by_id
SELECT id, user_id, role, ended_at FROM qd_membership WHERE id = %s FOR NO KEY UPDATE;

-- name: other_admins
-- Locked, so that two admins cannot end each other at once.
SELECT id FROM qd_membership WHERE role = 'admin' AND ended_at IS NULL AND id <> %s ORDER BY id FOR NO KEY UPDATE;

-- name: insert_tenant
INSERT INTO qd_tenant (id, slug, name, settings, created_at) VALUES (%s, %s, %s, '{}', qd_now())
ON CONFLICT (slug) DO NOTHING RETURNING id;

-- name: retire_tenant
UPDATE qd_tenant SET suspended_at = coalesce(suspended_at, qd_now()), slug = left(slug, 50) || '-' || %(mark)s::text
WHERE id = %(id)s RETURNING slug;

-- name: read_settings
SELECT settings FROM qd_tenant WHERE id = %s;

-- name: lock_settings
-- Locked, so that two changes of two settings do not undo each other.
SELECT settings FROM qd_tenant WHERE id = %s FOR NO KEY UPDATE;

-- name: put_settings
UPDATE qd_tenant SET settings = %s::jsonb WHERE id = %s;
