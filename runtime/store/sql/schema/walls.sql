-- Roles: a process takes one with SET ROLE (libpq option -c role=…); none of them logs in by itself.
DO $$ DECLARE r text; BEGIN
  FOREACH r IN ARRAY ARRAY['qd_web', 'qd_worker', 'qd_definer'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN
      EXECUTE format('CREATE ROLE %I NOLOGIN', r);
    END IF;
    IF NOT pg_has_role(current_user, r, 'MEMBER') THEN
      EXECUTE format('GRANT %I TO CURRENT_USER', r);
    END IF;
  END LOOP;
END $$;
GRANT USAGE ON SCHEMA public TO qd_web, qd_worker, qd_definer;

-- Row-level security on every table with a tenant_id; (SELECT qd_tenant()) is evaluated once a statement.
DO $$ DECLARE t record; BEGIN
  FOR t IN
    SELECT c.oid::regclass AS name, CASE WHEN c.relname = 'qd_tenant' THEN 'id' ELSE 'tenant_id' END AS col
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND c.relname LIKE 'qd\_%'
      AND (c.relname = 'qd_tenant'
           OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped))
      AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'qd_own_tenant')
  LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.name);
    EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t.name);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %s USING (%I = (SELECT qd_tenant())) WITH CHECK (%I = (SELECT qd_tenant()))',
                   t.name, t.col, t.col);
  END LOOP;
END $$;

-- What a definer function may see across tenants: identities before the tenant is known, and where work is ready.
GRANT SELECT ON qd_tenant, qd_membership, qd_api_token, qd_step, qd_run, qd_operation, qd_attempt TO qd_definer;
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_tenant', 'qd_membership', 'qd_api_token', 'qd_step', 'qd_run', 'qd_operation',
                           'qd_attempt'] LOOP
    EXECUTE format('CREATE POLICY qd_definer_reads ON %I FOR SELECT TO qd_definer USING (true)', t);
  END LOOP;
END $$;

CREATE FUNCTION qd_all_tenants() RETURNS TABLE (id uuid, slug text, suspended boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
$$ SELECT t.id, t.slug::text, t.suspended_at IS NOT NULL FROM qd_tenant t ORDER BY t.slug $$;

CREATE FUNCTION qd_memberships_of(wanted int)
RETURNS TABLE (tenant_id uuid, slug text, name text, role text, extra_verbs jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
$$ SELECT t.id, t.slug::text, t.name::text, m.role::text, m.extra_verbs
   FROM qd_membership m JOIN qd_tenant t ON t.id = m.tenant_id
   WHERE m.user_id = wanted AND m.ended_at IS NULL AND t.suspended_at IS NULL ORDER BY t.slug $$;

CREATE FUNCTION qd_token_by_hash(wanted bytea)
RETURNS TABLE (token_id uuid, tenant_id uuid, user_id int, verbs jsonb, role text, extra_verbs jsonb, expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
$$ SELECT k.id, k.tenant_id, k.user_id, k.verbs, m.role::text, m.extra_verbs, k.expires_at
   FROM qd_api_token k
   JOIN qd_membership m ON m.tenant_id = k.tenant_id AND m.user_id = k.user_id AND m.ended_at IS NULL
   JOIN qd_tenant t ON t.id = k.tenant_id AND t.suspended_at IS NULL
   WHERE k.token_sha256 = wanted AND k.revoked_at IS NULL $$;

-- Tenants with a claimable step in these pools: one index probe a tenant, whatever lies in front (engine.md 3).
-- In PL/pgSQL, which keeps the plan: a function in SQL that is not inlined is planned at every call.
CREATE FUNCTION qd_ready_tenants(pools text[]) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  RETURN QUERY
  WITH RECURSIVE found(pool, tenant_id) AS (
    SELECT p.pool, (SELECT s.tenant_id FROM qd_step s
                    WHERE s.status = 'queued' AND s.claimable AND s.pool = p.pool ORDER BY s.tenant_id LIMIT 1)
    FROM unnest(pools) p(pool)
    UNION ALL
    SELECT f.pool, (SELECT s.tenant_id FROM qd_step s
                    WHERE s.status = 'queued' AND s.claimable AND s.pool = f.pool AND s.tenant_id > f.tenant_id
                    ORDER BY s.tenant_id LIMIT 1)
    FROM found f WHERE f.tenant_id IS NOT NULL
  )
  SELECT DISTINCT f.tenant_id FROM found f WHERE f.tenant_id IS NOT NULL;
END $$;

-- Due timers: (tenant, run, node), oldest first.
CREATE FUNCTION qd_due_timers(most int) RETURNS TABLE (tenant_id uuid, run_id uuid, node text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.tenant_id, s.run_id, s.node::text FROM qd_step s
  WHERE s.status = 'waiting' AND s.not_before IS NOT NULL AND s.not_before <= qd_now() AND NOT s.superseded
  ORDER BY s.not_before LIMIT most
$$;
CREATE FUNCTION qd_next_timer() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT min(s.not_before) FROM qd_step s WHERE s.status = 'waiting' AND s.not_before IS NOT NULL AND NOT s.superseded
$$;
CREATE FUNCTION qd_due_deadlines(most int) RETURNS TABLE (tenant_id uuid, run_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT r.tenant_id, r.id FROM qd_run r
  WHERE r.deadline <= qd_now() AND (r.status <> 'needs_attention' OR r.n_open > r.n_unknown)
    AND r.status NOT IN ('completed', 'partially_completed', 'failed', 'cancelled', 'cancelling', 'compensating')
  ORDER BY r.deadline LIMIT most
$$;
-- Running steps whose worker session is over: the anti-join runs over the few running steps only.
CREATE FUNCTION qd_orphaned_steps(most int) RETURNS TABLE (tenant_id uuid, run_id uuid, node text, session_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.tenant_id, s.run_id, s.node::text, s.worker_session_id FROM qd_step s
  WHERE s.status = 'running'
    AND NOT EXISTS (SELECT FROM qd_worker_session w WHERE w.id = s.worker_session_id AND w.ended_at IS NULL)
  ORDER BY s.run_id, s.node LIMIT most
$$;
-- Operations that were sent by a step that no longer runs and a worker session that is over: nobody will report them.
CREATE FUNCTION qd_orphaned_operations(most int) RETURNS TABLE (tenant_id uuid, run_id uuid, business_key text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT o.tenant_id, o.run_id, o.business_key::text FROM qd_operation o
  WHERE o.status = 'sent'
    AND NOT EXISTS (SELECT FROM qd_step s
                    WHERE s.id = o.step_id AND s.status = 'running' AND s.owner_epoch = o.owner_epoch)
    AND NOT EXISTS (SELECT FROM qd_attempt a JOIN qd_worker_session w ON w.id = a.worker_session_id
                    WHERE a.run_id = o.run_id AND a.step_id = o.step_id AND a.number = o.attempt AND w.ended_at IS NULL)
  ORDER BY o.run_id, o.business_key LIMIT most
$$;
CREATE FUNCTION qd_queue_depth() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
$$ SELECT count(*) FROM qd_step s WHERE s.status = 'queued' AND s.claimable $$;
CREATE FUNCTION qd_oldest_queued() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
$$ SELECT min(s.queued_at) FROM qd_step s WHERE s.status = 'queued' AND s.claimable $$;

DO $$ DECLARE f text; BEGIN
  -- A new owner needs CREATE on the schema for the moment of the change only.
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_all_tenants()', 'qd_memberships_of(int)', 'qd_token_by_hash(bytea)',
      'qd_ready_tenants(text[])', 'qd_due_timers(int)', 'qd_next_timer()', 'qd_due_deadlines(int)',
      'qd_orphaned_steps(int)', 'qd_orphaned_operations(int)', 'qd_queue_depth()', 'qd_oldest_queued()'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
REVOKE ALL ON FUNCTION qd_ensure_partitions(date, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION qd_ensure_partitions(date, int) TO qd_worker;
GRANT SELECT ON qd_clock, qd_worker_session TO qd_definer;

-- Web and worker: read all, add and move where the product does; delete nothing of the runtime.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO qd_web, qd_worker;
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO qd_web, qd_worker;
-- Customers' code runs in workers: no password, session or token is readable there.
REVOKE SELECT ON qd_api_token, auth_user, django_session FROM qd_worker;
GRANT SELECT (id, username, first_name, last_name, email, is_active) ON auth_user TO qd_worker;
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_event', 'qd_checkpoint', 'qd_audit_entry', 'qd_manifest', 'qd_evidence', 'qd_outcome', 'qd_citation'] LOOP
    EXECUTE format('GRANT INSERT ON %I TO qd_web, qd_worker', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['qd_task', 'qd_run', 'qd_step', 'qd_attempt', 'qd_operation', 'qd_artifact', 'qd_outbox', 'qd_inbox',
                           'qd_audit_head', 'qd_session', 'qd_subscriber_cursor', 'qd_worker_session'] LOOP
    EXECUTE format('GRANT INSERT, UPDATE ON %I TO qd_web, qd_worker', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['qd_workflow', 'qd_workflow_version', 'qd_tool_version', 'qd_verifier', 'qd_membership', 'qd_api_token'] LOOP
    EXECUTE format('GRANT INSERT, UPDATE ON %I TO qd_web', t);
  END LOOP;
END $$;

-- Sign-in, sessions and object permissions are Django's own tables; only the web writes them.
DO $$ DECLARE t record; BEGIN
  FOR t IN SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'public' AND c.relkind = 'r'
             AND (c.relname LIKE 'auth\_user%' OR c.relname LIKE 'auth\_group%' OR c.relname LIKE 'guardian\_%'
                  OR c.relname = 'django_session') LOOP
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON %s TO qd_web', t.name);
  END LOOP;
END $$;
