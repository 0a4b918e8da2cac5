-- When the last stop of anybody ended, by being lifted or by its time: what a duty compares to see that one has.
CREATE FUNCTION qd_last_stop_end() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT max(e) FROM (
    SELECT least(lifted_at, until) AS e FROM qd_stop UNION ALL SELECT least(lifted_at, until) FROM qd_global_stop) s
  WHERE e <= qd_now()
$$;
GRANT CREATE ON SCHEMA public TO qd_definer;
REVOKE ALL ON FUNCTION qd_last_stop_end() FROM PUBLIC;
DO $$ BEGIN
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_last_stop_end() TO qd_web, qd_worker, ' || quote_ident(current_user);
END $$;
ALTER FUNCTION qd_last_stop_end() OWNER TO qd_definer;
REVOKE CREATE ON SCHEMA public FROM qd_definer;
