-- Operations whose tool is to be asked now, oldest first, over all tenants.
CREATE FUNCTION qd_due_queries(most int) RETURNS TABLE (tenant_id uuid, operation_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT o.tenant_id, o.id FROM qd_operation o
  WHERE o.next_query_at IS NOT NULL AND o.next_query_at <= qd_now() AND o.status IN ('unknown', 'needs_human')
  ORDER BY o.next_query_at LIMIT most
$$;
GRANT CREATE ON SCHEMA public TO qd_definer;
REVOKE ALL ON FUNCTION qd_due_queries(int) FROM PUBLIC;
DO $$ BEGIN
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_due_queries(int) TO qd_web, qd_worker, ' || quote_ident(current_user);
END $$;
ALTER FUNCTION qd_due_queries(int) OWNER TO qd_definer;
REVOKE CREATE ON SCHEMA public FROM qd_definer;
