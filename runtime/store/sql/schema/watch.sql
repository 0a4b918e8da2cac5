-- Stops, alerts and notices: walls, grants, and what duties may see across tenants.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_stop', 'qd_alert', 'qd_notice_target'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON %I TO qd_web, qd_worker', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['qd_stop', 'qd_outbox'] LOOP
    EXECUTE format('GRANT SELECT ON %I TO qd_definer', t);
    EXECUTE format('CREATE POLICY qd_definer_reads ON %I FOR SELECT TO qd_definer USING (true)', t);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE ON qd_global_stop TO qd_web, qd_worker;
GRANT SELECT ON qd_global_stop TO qd_definer;

-- Every stop that stands, of every tenant; a null tenant is the whole installation.
CREATE FUNCTION qd_standing_stops() RETURNS TABLE (id uuid, tenant_id uuid, scope text, name text, until timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.id, s.tenant_id, s.scope::text, s.name::text, s.until FROM qd_stop s
  WHERE s.lifted_at IS NULL AND (s.until IS NULL OR s.until > qd_now())
  UNION ALL
  SELECT g.id, NULL, 'global', '', g.until FROM qd_global_stop g
  WHERE g.lifted_at IS NULL AND (g.until IS NULL OR g.until > qd_now())
$$;
-- Steps that a stop holds back; read when a stop has ended.
CREATE FUNCTION qd_stopped_steps(most int) RETURNS TABLE (tenant_id uuid, run_id uuid, node text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.tenant_id, s.run_id, s.node::text FROM qd_step s
  WHERE s.status = 'waiting' AND s.not_before IS NOT NULL AND s.cause = 'stopped' AND NOT s.superseded
  ORDER BY s.not_before LIMIT most
$$;
-- Messages for the outside that are due, oldest first.
CREATE FUNCTION qd_due_messages(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT o.tenant_id, o.id FROM qd_outbox o
  WHERE o.sent_at IS NULL AND (o.claimed_until IS NULL OR o.claimed_until <= qd_now())
  ORDER BY o.created_at LIMIT most
$$;

DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_standing_stops()', 'qd_stopped_steps(int)', 'qd_due_messages(int)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
