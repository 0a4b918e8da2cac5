-- What duties and pages see across tenants: kept events page by page, and how many steps each worker runs.

-- Runs behind a cursor that hold for an external event, or have ended, and have messages that came before; by their ids.
-- The form without a cursor stays for workers of the version before.
CREATE OR REPLACE FUNCTION qd_kept_signals(after uuid, most int) RETURNS TABLE (tenant_id uuid, run_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT DISTINCT i.tenant_id, i.run_id FROM qd_inbox i
  WHERE i.handled_at IS NULL AND i.run_id IS NOT NULL AND i.run_id > after AND EXISTS (
    SELECT FROM qd_run r WHERE r.id = i.run_id AND (r.finished_at IS NOT NULL OR r.n_hold_external > 0))
  ORDER BY i.run_id LIMIT most
$$;
-- Worker sessions that run steps, and how many: numbers alone, of all tenants together.
CREATE OR REPLACE FUNCTION qd_running_steps() RETURNS TABLE (session uuid, n bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT s.worker_session_id, count(*) FROM qd_step s WHERE s.status = 'running' GROUP BY s.worker_session_id
$$;

DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_kept_signals(uuid, int)', 'qd_running_steps()'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
