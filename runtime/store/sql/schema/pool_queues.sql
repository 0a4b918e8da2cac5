-- The queue by pool: how many steps may run now, and since when the oldest of them waits. It goes from one pool of the ready
-- index to the next and reads at most ``most`` steps of each. A pool that no living worker serves has no name here: anybody
-- may have made it up.
CREATE FUNCTION qd_pool_queues(most int) RETURNS TABLE (pool text, depth int, oldest timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
  WITH RECURSIVE served AS (
    SELECT DISTINCT jsonb_array_elements_text(w.pools) AS pool FROM qd_worker_session w
    WHERE w.ended_at IS NULL AND w.lease_until > qd_now()),
  found(pool) AS (
    (SELECT s.pool FROM qd_step s WHERE s.status = 'queued' AND s.claimable ORDER BY s.pool LIMIT 1)
    UNION ALL
    SELECT (SELECT s.pool FROM qd_step s WHERE s.pool > f.pool AND s.status = 'queued' AND s.claimable
            ORDER BY s.pool LIMIT 1)
    FROM found f WHERE f.pool IS NOT NULL),
  ready AS (
    SELECT f.pool, r.depth, r.oldest FROM (SELECT pool FROM found WHERE pool IS NOT NULL LIMIT 1000) f
    CROSS JOIN LATERAL (
      SELECT count(*)::int AS depth, min(x.queued_at) AS oldest FROM (
        SELECT s.queued_at FROM qd_step s WHERE s.pool = f.pool AND s.status = 'queued' AND s.claimable LIMIT most) x) r)
  SELECT coalesce(v.pool, ''), coalesce(sum(r.depth), 0)::int, min(r.oldest)
  FROM served v FULL JOIN ready r ON r.pool = v.pool GROUP BY 1
$$;

DO $$ BEGIN
  GRANT CREATE ON SCHEMA public TO qd_definer;
  REVOKE ALL ON FUNCTION qd_pool_queues(int) FROM PUBLIC;
  EXECUTE 'GRANT EXECUTE ON FUNCTION qd_pool_queues(int) TO qd_web, qd_worker, ' || quote_ident(current_user);
  ALTER FUNCTION qd_pool_queues(int) OWNER TO qd_definer;
  REVOKE CREATE ON SCHEMA public FROM qd_definer;
END $$;
