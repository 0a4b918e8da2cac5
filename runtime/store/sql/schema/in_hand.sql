-- What a worker's heartbeat shows of the calls in its hands is of every tenant. So the roles of the processes read all of a
-- session but that, and a function tells each tenant of its own.
REVOKE SELECT ON qd_worker_session FROM qd_web, qd_worker;
DO $$ DECLARE names text; BEGIN
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO names FROM pg_attribute a
  WHERE a.attrelid = 'qd_worker_session'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'in_hand';
  EXECUTE format('GRANT SELECT (%s) ON qd_worker_session TO qd_web, qd_worker', names);
END $$;

CREATE FUNCTION qd_steps_in_hand() RETURNS TABLE (session_id uuid, beat_at timestamptz, step_id uuid, call jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT w.id, w.beat_at, (c.call->>'step')::uuid, c.call - 'tenant' - 'step'
  FROM qd_worker_session w, jsonb_array_elements(w.in_hand) c(call)
  WHERE w.ended_at IS NULL AND c.call->>'tenant' = qd_tenant()::text
$$;

DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_steps_in_hand() FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_steps_in_hand() TO qd_web, qd_worker, ' || quote_ident(current_user);
  ALTER FUNCTION qd_steps_in_hand() OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
