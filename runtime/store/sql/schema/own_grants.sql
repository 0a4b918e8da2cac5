-- Grants of actions that services carry out themselves, unused when their permission to start ran out; oldest first.
CREATE FUNCTION qd_lapsed_grants(most int) RETURNS TABLE (tenant_id uuid, id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT a.tenant_id, a.id FROM qd_approval a
  WHERE a.state = 'approved' AND a.n_actions > 0 AND a.run_id IS NULL AND a.start_by <= qd_now() ORDER BY a.id LIMIT most
$$;
DO $$ BEGIN
  REVOKE ALL ON FUNCTION qd_lapsed_grants(int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_lapsed_grants(int) TO qd_web, qd_worker, ' || quote_ident(current_user);
  GRANT CREATE ON SCHEMA public TO qd_definer;
  ALTER FUNCTION qd_lapsed_grants(int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
