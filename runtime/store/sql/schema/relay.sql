-- The outbox's quarantine: walls and grants; what duties see across tenants of messages and of runs that nothing moves.
ALTER TABLE qd_quarantine ENABLE ROW LEVEL SECURITY;
ALTER TABLE qd_quarantine FORCE ROW LEVEL SECURITY;
CREATE POLICY qd_own_tenant ON qd_quarantine USING (tenant_id = (SELECT qd_tenant())) WITH CHECK (tenant_id = (SELECT qd_tenant()));
GRANT SELECT, INSERT, UPDATE ON qd_quarantine TO qd_web, qd_worker;

-- When the oldest message was written that has not been sent yet.
CREATE FUNCTION qd_oldest_unsent() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS
$$ SELECT min(o.created_at) FROM qd_outbox o WHERE o.sent_at IS NULL $$;
-- Runs that are under way and have nothing that could move them: no step that may be claimed, runs, holds, is in doubt or
-- has a time to wait for, and nobody who owns them. Old enough, so that nothing is looked at between two transactions.
CREATE FUNCTION qd_stranded_runs(age_seconds float8, most int) RETURNS TABLE (tenant_id uuid, run_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT r.tenant_id, r.id FROM qd_run r
  WHERE r.status IN ('accepted', 'queued', 'running', 'waiting_tool', 'waiting_approval', 'waiting_external')
    AND NOT r.paused AND NOT r.cancel_requested AND r.created_at < qd_now() - make_interval(secs => age_seconds)
    AND NOT EXISTS (SELECT FROM qd_step s WHERE s.run_id = r.id AND NOT s.superseded AND (
      s.status IN ('running', 'hold', 'unknown') OR (s.status = 'queued' AND (s.claimable OR s.hold_requested))
      OR (s.status = 'waiting' AND s.not_before IS NOT NULL)))
    AND NOT EXISTS (SELECT FROM qd_operation o WHERE o.run_id = r.id AND r.n_open_operations > 0
      AND o.status IN ('intended', 'sent', 'unknown', 'needs_human', 'compensating', 'compensation_failed'))
  ORDER BY r.created_at LIMIT most
$$;

DO $$ DECLARE f text; BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  FOREACH f IN ARRAY ARRAY['qd_oldest_unsent()', 'qd_stranded_runs(float8, int)'] LOOP
    EXECUTE 'REVOKE ALL ON FUNCTION ' || f || ' FROM PUBLIC';
    EXECUTE 'GRANT EXECUTE ON FUNCTION ' || f || ' TO qd_web, qd_worker, ' || quote_ident(current_user);
    EXECUTE 'ALTER FUNCTION ' || f || ' OWNER TO qd_definer';
  END LOOP;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
