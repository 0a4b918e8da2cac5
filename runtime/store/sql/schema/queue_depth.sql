-- How many steps may run now and wait for a worker. Counting stops at ``most``: whoever watches a full queue costs it little.
CREATE FUNCTION qd_queue_depth(most int) RETURNS int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT count(*)::int FROM (SELECT FROM qd_step s WHERE s.status = 'queued' AND s.claimable LIMIT most) a
$$;

DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_queue_depth(int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_queue_depth(int) TO qd_web, qd_worker, ' || quote_ident(current_user);
  ALTER FUNCTION qd_queue_depth(int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
