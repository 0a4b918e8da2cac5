-- name: memberships_of
-- The tenants a user belongs to, asked before any tenant is known (SECURITY DEFINER).
SELECT tenant_id, slug, name, role, extra_verbs FROM qd_memberships_of(%s);

-- name: token_by_hash
-- A token that is not revoked, of a member in good standing; the caller compares expires_at with `now`.
SELECT token_id, tenant_id, user_id, verbs, role, extra_verbs, expires_at, expires_at <= qd_now() AS expired
  FROM qd_token_by_hash(%s);

-- name: all_tenants
SELECT id, slug, suspended FROM qd_all_tenants();

-- name: token_used
-- Once a minute at most: a busy token must not write at every request.
UPDATE qd_api_token SET last_used_at = qd_now()
 WHERE id = %s AND (last_used_at IS NULL OR last_used_at < qd_now() - interval '1 minute');

-- name: token_scope
SELECT verbs FROM qd_api_token WHERE id = %s;
