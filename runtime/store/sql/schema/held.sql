-- What a worker session holds by the rows: compared with what the worker itself knows (C2.8).
CREATE FUNCTION qd_steps_held_by(session uuid)
RETURNS TABLE (tenant_id uuid, run_id uuid, node text, step_id uuid, owner_epoch int)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.tenant_id, s.run_id, s.node::text, s.id, s.owner_epoch FROM qd_step s
  WHERE s.status = 'running' AND s.worker_session_id = session
$$;
-- Those of the sessions, all idle by their workers' own word after "before", with a step that was started before it.
CREATE FUNCTION qd_forgetful_sessions(idle uuid[], before timestamptz) RETURNS SETOF uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT DISTINCT s.worker_session_id FROM qd_step s
  WHERE s.status = 'running' AND s.worker_session_id = ANY(idle) AND s.started_at < before
$$;
DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_steps_held_by(uuid)', 'qd_forgetful_sessions(uuid[], timestamptz)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
