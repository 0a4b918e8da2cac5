-- name: insert_artifact
-- Content is stored once per tenant and hash; a reference to it is written afterwards (C2.3).
INSERT INTO qd_artifact (id, tenant_id, sha256, size, media_type, content, created_by, created_at, expires_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, qd_now(), qd_now() + interval '7 days')
ON CONFLICT (tenant_id, sha256) DO NOTHING RETURNING id;

-- name: artifact_by_hash
-- Locks the row, so that content that was purged can be put back under its hash.
SELECT id, content IS NULL, media_type FROM qd_artifact WHERE sha256 = %s FOR NO KEY UPDATE;

-- name: type_artifact
UPDATE qd_artifact SET media_type = %s WHERE id = %s;

-- name: restore_artifact
UPDATE qd_artifact SET content = %s, expires_at = qd_now() + interval '7 days' WHERE id = %s AND content IS NULL;

-- name: evidence_for_evidence
-- What a verdict may cite, by kind: id, run, step, when it was observed, its hash, whether it has it, content, artifact.
-- The content of evidence is needed only where it is a reference to an artifact.
SELECT id, run_id, step_id, observed_at, content_sha256, sha256(content) = content_sha256,
  CASE WHEN source LIKE 'artifact:%%' OR source LIKE '%%:artifact' THEN content ELSE ''::bytea END, NULL::uuid, source
FROM qd_evidence WHERE task_id = %s AND id = ANY(%s);

-- name: operation_for_evidence
-- Of an operation its stored answer counts.
SELECT o.id, o.run_id, o.step_id, coalesce(o.settled_at, o.sent_at, o.intended_at), o.response_sha256,
  sha256(o.response) = o.response_sha256, o.response, NULL::uuid, ''
FROM qd_operation o JOIN qd_run r ON r.id = o.run_id WHERE r.task_id = %s AND o.id = ANY(%s);

-- name: checkpoint_for_evidence
-- A checkpoint goes by the id of its step.
SELECT s.id, c.run_id, c.step_id, c.created_at, c.output_sha256, sha256(c.output) = c.output_sha256, c.output, c.artifact_id, ''
FROM qd_step s JOIN qd_run r ON r.id = s.run_id
JOIN qd_checkpoint c ON c.run_id = s.run_id AND c.node = s.node AND c.execution_version = s.execution_version
WHERE r.task_id = %s AND s.id = ANY(%s);

-- name: artifacts_for_evidence
-- An artifact belongs to the task whose input names it, or whose runs made it; else it is whose who uploaded it.
SELECT a.id, a.created_at, a.sha256, sha256(a.content) = a.sha256 FROM qd_artifact a
WHERE a.id = ANY(%(ids)s) AND (a.created_by = %(by)s
  OR EXISTS (SELECT FROM qd_task t WHERE t.id = %(task)s
             AND position(a.id::text in lower(convert_from(t.input, 'UTF8'))) > 0)
  OR EXISTS (SELECT FROM qd_run r JOIN qd_checkpoint c ON c.run_id = r.id
             WHERE r.task_id = %(task)s AND c.artifact_id = a.id)
  OR EXISTS (SELECT FROM qd_run r JOIN qd_event e ON e.run_id = r.id
             WHERE r.task_id = %(task)s AND e.type IN ('RUN_COMPLETED', 'RUN_PARTIALLY_COMPLETED')
             AND e.payload->>'artifact_id' = a.id::text));

-- name: artifacts_intact
SELECT id, sha256, sha256(content) = sha256 FROM qd_artifact WHERE id = ANY(%s);

-- name: run_of_task
SELECT id, status, n_open_operations FROM qd_run WHERE id = %s AND task_id = %s;

-- name: verifier_named
-- Locked, so that it is not revoked before its outcome is written.
SELECT id, method, revoked_at FROM qd_verifier WHERE name = %s AND number = %s FOR SHARE;

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

-- name: held_roles
-- Which roles somebody has, with the verbs that they have beside it.
SELECT DISTINCT m.role, m.extra_verbs FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
WHERE m.ended_at IS NULL AND u.is_active;

-- name: language_of
SELECT language FROM qd_preference WHERE user_id = %s;

-- name: language_put
INSERT INTO qd_preference (user_id, language, set_at) VALUES (%s, %s, qd_now())
ON CONFLICT (user_id) DO UPDATE SET language = excluded.language, set_at = excluded.set_at;

-- name: languages_of_addresses
-- Which language the members at some addresses chose; of two at one address what was chosen last.
SELECT u.email, p.language FROM qd_membership m JOIN auth_user u ON u.id = m.user_id
  JOIN qd_preference p ON p.user_id = u.id
WHERE m.ended_at IS NULL AND u.is_active AND u.email = ANY(%s) ORDER BY p.set_at;
