-- Limits, breakers, retry windows and policies: walls, grants, and what duties may see across tenants.
-- A global limit is counted by every tenant's transactions, so its row, of the tenant with the zero id, is everybody's.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['qd_limit', 'qd_breaker', 'qd_retry_window', 'qd_policy'] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', t);
    IF t IN ('qd_breaker', 'qd_policy') THEN
      EXECUTE format('CREATE POLICY qd_own_tenant ON %I USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()))', t);
    ELSE
      EXECUTE format($p$CREATE POLICY qd_own_tenant ON %I
        USING (tenant_id = (SELECT qd_tenant()) OR tenant_id = '00000000-0000-0000-0000-000000000000')
        WITH CHECK (tenant_id = (SELECT qd_tenant()) OR tenant_id = '00000000-0000-0000-0000-000000000000')$p$, t);
    END IF;
    EXECUTE format('GRANT SELECT, INSERT, UPDATE ON %I TO qd_web, qd_worker', t);
  END LOOP;
END $$;
ALTER TABLE qd_limit SET (fillfactor = 50);

-- What steps are parked for, each once with its tenant: one index probe apiece.
CREATE FUNCTION qd_blocked_gates(after uuid, most int) RETURNS TABLE (gate uuid, tenant_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  FOR i IN 1 .. most LOOP
    SELECT s.blocked_on, s.tenant_id INTO gate, tenant_id FROM qd_step s
    WHERE s.status = 'queued' AND NOT s.claimable AND s.blocked_on IS NOT NULL AND s.blocked_on > after
    ORDER BY s.blocked_on LIMIT 1;
    EXIT WHEN NOT FOUND;
    after := gate;
    RETURN NEXT;
  END LOOP;
END $$;
-- Tenants with steps that a global limit holds back; it may be any of them.
CREATE FUNCTION qd_blocked_tenants(wanted uuid) RETURNS SETOF uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT DISTINCT s.tenant_id FROM qd_step s
  WHERE s.status = 'queued' AND NOT s.claimable AND s.blocked_on = wanted
$$;
-- How many steps wait for a worker, ready or parked by a limit; counting stops at ``most``.
CREATE FUNCTION qd_backlog(most int) RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT ((SELECT count(*) FROM (SELECT FROM qd_step WHERE status = 'queued' AND claimable LIMIT most) a)
        + (SELECT count(*) FROM (SELECT FROM qd_step WHERE status = 'queued' AND NOT claimable
                                   AND blocked_on IS NOT NULL LIMIT most) b))::int
$$;

DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_blocked_gates(uuid, int)', 'qd_blocked_tenants(uuid)', 'qd_backlog(int)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
