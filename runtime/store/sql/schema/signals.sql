-- External events: what duties may see across tenants.
GRANT SELECT ON qd_inbox TO qd_definer;
CREATE POLICY qd_definer_reads ON qd_inbox FOR SELECT TO qd_definer USING (true);

-- Runs that hold for an external event and have messages that came before they did.
CREATE FUNCTION qd_kept_signals(most int) RETURNS TABLE (tenant_id uuid, run_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT DISTINCT i.tenant_id, i.run_id FROM qd_inbox i
  WHERE i.handled_at IS NULL AND i.run_id IS NOT NULL AND EXISTS (
    SELECT FROM qd_run r WHERE r.id = i.run_id AND (r.finished_at IS NOT NULL OR r.n_hold_external > 0)) LIMIT most
$$;
-- Steps whose external event did not come in time.
CREATE FUNCTION qd_overdue_signals(most int) RETURNS TABLE (tenant_id uuid, run_id uuid, node text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.tenant_id, s.run_id, s.node::text FROM qd_step s
  WHERE s.status = 'hold' AND s.cause = 'external' AND s.not_before <= qd_now() AND NOT s.superseded
  ORDER BY s.not_before LIMIT most
$$;

DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_kept_signals(int)', 'qd_overdue_signals(int)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
