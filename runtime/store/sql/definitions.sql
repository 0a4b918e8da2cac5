-- name: workflow_spec
SELECT spec FROM qd_workflow_version WHERE id = %s;

-- name: workflow_version
-- A version by name and number; without a number the newest.
SELECT v.id, v.number, v.spec_sha256, w.id FROM qd_workflow w JOIN qd_workflow_version v ON v.workflow_id = w.id
WHERE w.name = %(name)s AND (%(number)s::int IS NULL OR v.number = %(number)s) ORDER BY v.number DESC LIMIT 1;

-- name: workflow_by_content
SELECT v.id, v.number FROM qd_workflow w JOIN qd_workflow_version v ON v.workflow_id = w.id
WHERE w.name = %s AND v.spec_sha256 = %s;

-- name: claim_workflow_name
-- Makes the name if it is new and locks it either way, so that numbers are given out one by one.
INSERT INTO qd_workflow (id, tenant_id, name, description, created_at) VALUES (%s, %s, %s, %s, qd_now())
ON CONFLICT (tenant_id, name) DO UPDATE SET description = excluded.description RETURNING id;

-- name: insert_workflow_version
INSERT INTO qd_workflow_version (id, tenant_id, workflow_id, number, spec, spec_sha256, created_by, created_at)
SELECT %(id)s, %(tenant)s, %(workflow)s, coalesce(max(number), 0) + 1, %(spec)s, %(sha256)s, %(by)s, qd_now()
FROM qd_workflow_version WHERE workflow_id = %(workflow)s RETURNING number;

-- name: tools_by_name
SELECT id, name, number, contract, contract_sha256, side_effect, recovery, retired_at FROM qd_tool_version
WHERE (name, number) IN (SELECT * FROM unnest(%s::text[], %s::int[]));

-- name: insert_tool_version
INSERT INTO qd_tool_version (id, tenant_id, name, number, contract, contract_sha256, side_effect, recovery, created_by, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, qd_now()) ON CONFLICT (tenant_id, name, number) DO NOTHING RETURNING id;

-- name: insert_manifest
INSERT INTO qd_manifest (id, tenant_id, sha256, body, created_at) VALUES (%s, %s, %s, %s, qd_now())
ON CONFLICT (tenant_id, sha256) DO NOTHING;

-- name: manifest_by_content
SELECT id FROM qd_manifest WHERE sha256 = %s;

-- name: verifier_by_name
SELECT id FROM qd_verifier WHERE name = %s AND number = %s AND revoked_at IS NULL;

-- name: verifier_at
SELECT method, revoked_at FROM qd_verifier WHERE name = %s AND number = %s;

-- name: insert_verifier
INSERT INTO qd_verifier (id, tenant_id, name, number, method, description, authorised_by, created_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, qd_now()) ON CONFLICT (tenant_id, name, number) DO NOTHING RETURNING id;

-- name: lock_verifier
-- Waits for whoever records an outcome of it right now.
SELECT id, revoked_at FROM qd_verifier WHERE name = %s AND number = %s FOR UPDATE;

-- name: end_verifier
UPDATE qd_verifier SET revoked_at = qd_now() WHERE id = %s RETURNING revoked_at;

-- name: lock_tool
SELECT id, retired_at FROM qd_tool_version WHERE name = %s AND number = %s FOR NO KEY UPDATE;

-- name: end_tool
UPDATE qd_tool_version SET retired_at = qd_now() WHERE id = %s RETURNING retired_at;

-- name: tool_is_signed
-- Whether its samples were signed for the contract that the version has.
SELECT EXISTS (SELECT FROM qd_tool_signature s JOIN qd_tool_version v ON v.id = s.tool_version_id
  WHERE v.id = %s AND s.contract_sha256 = v.contract_sha256);

-- name: signed_tools
-- Which of these versions have samples that were signed for the contract that they have.
SELECT v.name, v.number FROM qd_tool_version v WHERE (v.name, v.number) IN (SELECT * FROM unnest(%s::text[], %s::int[]))
  AND EXISTS (SELECT FROM qd_tool_signature s WHERE s.tool_version_id = v.id AND s.contract_sha256 = v.contract_sha256);

-- name: tool_is_known
SELECT EXISTS (SELECT FROM qd_tool_version WHERE name = %(name)s AND (%(number)s::int IS NULL OR number = %(number)s));

-- name: workflow_is_known
SELECT EXISTS (SELECT FROM qd_workflow WHERE name = %(name)s);

-- name: own_slug
SELECT slug FROM qd_tenant;
