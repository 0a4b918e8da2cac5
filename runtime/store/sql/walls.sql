-- Invariant 8 as searches in the catalog: walls between tenants, and no right beyond what the product needs.

-- name: wall_row_security
-- Every table with a tenant stands under forced row-level security; a partition nobody may touch needs none of its own.
SELECT c.relname::text, 'row-level security is not forced' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p')
  AND (c.relname = 'qd_tenant' OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'
                                          AND NOT a.attisdropped))
  AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
  AND NOT (c.relispartition AND NOT EXISTS (
    SELECT FROM aclexplode(c.relacl) x LEFT JOIN pg_roles g ON g.oid = x.grantee
    WHERE x.grantee = 0 OR g.rolname IN ('qd_web', 'qd_worker', 'qd_definer')))
ORDER BY 1 LIMIT %s;

-- name: wall_policies
-- The policy compares the row's tenant with the transaction's; beside it only what the definer functions read.
SELECT c.relname::text, 'no policy compares its tenant' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND c.relrowsecurity AND NOT EXISTS (
  SELECT FROM pg_policies p WHERE p.schemaname = 'public' AND p.tablename = c.relname AND p.policyname = 'qd_own_tenant'
    AND p.cmd = 'ALL' AND p.qual LIKE '%%qd_tenant()%%' AND p.with_check LIKE '%%qd_tenant()%%')
UNION ALL
SELECT p.tablename::text, 'policy ' || p.policyname || ' opens it further' FROM pg_policies p
WHERE p.schemaname = 'public' AND p.permissive = 'PERMISSIVE' AND p.policyname <> 'qd_own_tenant'
  AND p.roles <> ARRAY['qd_definer']::name[]
LIMIT %s;

-- name: wall_grants
-- Nobody deletes or truncates the runtime's rows, nobody rewrites what is append-only, nobody moves the clock or the law.
-- Only a reader's saved views are no record: they are the reader's own to forget.
SELECT c.relname::text, format('%%s may %%s', coalesce(g.rolname, 'PUBLIC'), x.privilege_type)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) x
  LEFT JOIN pg_roles g ON g.oid = x.grantee
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND c.relname LIKE 'qd\_%%'
  AND (x.grantee = 0 OR g.rolname IN ('qd_web', 'qd_worker', 'qd_definer'))
  AND (x.grantee = 0 OR x.is_grantable OR x.privilege_type IN ('TRUNCATE', 'REFERENCES', 'TRIGGER', 'MAINTAIN')
    OR (x.privilege_type = 'DELETE' AND (c.relname, g.rolname) <> ('qd_saved_view', 'qd_web'))
    OR (g.rolname = 'qd_definer' AND x.privilege_type <> 'SELECT')
    OR (x.privilege_type = 'UPDATE' AND c.relname = ANY(ARRAY['qd_event', 'qd_checkpoint', 'qd_audit_entry',
        'qd_manifest', 'qd_evidence', 'qd_outcome', 'qd_citation']))
    OR (x.privilege_type IN ('INSERT', 'UPDATE') AND c.relname = ANY(ARRAY['qd_clock', 'qd_transition', 'qd_tenant'])))
LIMIT %s;

-- name: wall_roles
-- The processes' roles own nothing and pass no wall.
SELECT r.rolname::text, 'it passes the walls by its own right' FROM pg_roles r
WHERE r.rolname IN ('qd_web', 'qd_worker', 'qd_definer')
  AND (r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb OR r.rolcanlogin)
UNION ALL
SELECT m.rolname::text, 'it is a member of ' || g.rolname FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
  JOIN pg_roles g ON g.oid = a.roleid WHERE m.rolname IN ('qd_web', 'qd_worker', 'qd_definer')
UNION ALL
SELECT c.relname::text, 'owned by ' || o.rolname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_roles o ON o.oid = c.relowner
WHERE n.nspname = 'public' AND o.rolname IN ('qd_web', 'qd_worker', 'qd_definer') LIMIT %s;

-- name: wall_functions
-- A function that runs with another's rights has a fixed search path and is nobody's but the product's roles'.
SELECT p.proname::text, 'it runs with the rights of ' || o.rolname || ' for anybody, or without a search path'
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles o ON o.oid = p.proowner
WHERE n.nspname = 'public' AND p.prosecdef
  AND (p.proconfig IS NULL OR NOT EXISTS (SELECT FROM unnest(p.proconfig) c WHERE c LIKE 'search\_path=%%')
    OR p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) x WHERE x.grantee = 0)) LIMIT %s;

-- name: wall_triggers
-- The guards are there and on.
SELECT w.name || ' on ' || w.tab, 'the guard is missing or off'
FROM (VALUES ('qd_guard_step', 'qd_step'), ('qd_guard_step_insert', 'qd_step'), ('qd_guard_run', 'qd_run'),
             ('qd_guard_operation', 'qd_operation'), ('qd_append_only', 'qd_event'), ('qd_append_only', 'qd_checkpoint'),
             ('qd_append_only', 'qd_audit_entry'), ('qd_immutable', 'qd_outcome'), ('qd_immutable', 'qd_manifest'),
             ('qd_guard_case', 'qd_case'), ('qd_guard_completed', 'qd_run'), ('qd_immutable', 'qd_compensation'),
             ('qd_keep_username', 'auth_user'))
     w(name, tab)
WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgname = w.name AND t.tgrelid = w.tab::regclass
                  AND t.tgenabled IN ('O', 'A')) LIMIT %s;
