-- Queued steps that leave the pool their node prefers: their time there is over, or no living worker serves it. It goes from
-- one pool of the index to the next and reads at most ``most`` steps of each; only the worker's duty asks.
CREATE OR REPLACE FUNCTION qd_unpreferred(most int)
RETURNS TABLE (tenant_id uuid, run_id uuid, step_id uuid, prefer_until timestamptz, served boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  WITH RECURSIVE living AS (
    SELECT DISTINCT jsonb_array_elements_text(w.pools) AS pool FROM qd_worker_session w
    WHERE w.ended_at IS NULL AND w.lease_until > qd_now()),
  found(pool) AS (
    (SELECT s.pool FROM qd_step s WHERE s.status = 'queued' AND s.prefer_until IS NOT NULL ORDER BY s.pool LIMIT 1)
    UNION ALL
    SELECT (SELECT s.pool FROM qd_step s WHERE s.pool > f.pool AND s.status = 'queued' AND s.prefer_until IS NOT NULL
            ORDER BY s.pool LIMIT 1)
    FROM found f WHERE f.pool IS NOT NULL),
  pools AS (
    SELECT f.pool, EXISTS (SELECT FROM living l WHERE l.pool = f.pool) AS served
    FROM (SELECT pool FROM found WHERE pool IS NOT NULL LIMIT 1000) f)
  SELECT d.tenant_id, d.run_id, d.id, d.prefer_until, p.served FROM pools p
  CROSS JOIN LATERAL (
    SELECT s.tenant_id, s.run_id, s.id, s.prefer_until FROM qd_step s
    WHERE s.pool = p.pool AND s.status = 'queued' AND s.prefer_until IS NOT NULL
      AND s.prefer_until <= CASE WHEN p.served THEN qd_now() ELSE 'infinity' END
    ORDER BY s.prefer_until, s.id LIMIT most) d
  ORDER BY d.id LIMIT most
$$;

DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_unpreferred(int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_unpreferred(int) TO qd_worker, ' || quote_ident(current_user);
  ALTER FUNCTION qd_unpreferred(int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
