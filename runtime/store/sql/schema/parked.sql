-- Runs that are under way and have nothing that could move them: no step that may be claimed, is parked for
-- what another gives back, runs, holds, is in doubt or
-- has a time to wait for, and nobody who owns them. Old enough, so that nothing is looked at between two transactions.
CREATE OR REPLACE FUNCTION qd_stranded_runs(age_seconds float8, most int) RETURNS TABLE (tenant_id uuid, run_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  SELECT r.tenant_id, r.id FROM qd_run r
  WHERE r.status IN ('accepted', 'queued', 'running', 'waiting_tool', 'waiting_approval', 'waiting_external')
    AND NOT r.paused AND NOT r.cancel_requested AND r.created_at < qd_now() - make_interval(secs => age_seconds)
    AND NOT EXISTS (SELECT FROM qd_step s WHERE s.run_id = r.id AND NOT s.superseded AND (
      s.status IN ('running', 'hold', 'unknown') OR (s.status = 'queued' AND (s.claimable OR s.hold_requested OR s.blocked_on IS NOT NULL))
      OR (s.status = 'waiting' AND s.not_before IS NOT NULL)))
    AND NOT EXISTS (SELECT FROM qd_operation o WHERE o.run_id = r.id AND r.n_open_operations > 0
      AND o.status IN ('intended', 'sent', 'unknown', 'needs_human', 'compensating', 'compensation_failed'))
  ORDER BY r.created_at LIMIT most
$$;
