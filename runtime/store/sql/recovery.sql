-- name: work_lost
-- What the loss of these attempts (run, step, number) cost at most (seconds).
SELECT a.run_id, a.step_id, {lost_work} FROM unnest(%s::uuid[], %s::uuid[], %s::int[]) u(run_id, step_id, number)
JOIN qd_attempt a ON a.run_id = u.run_id AND a.step_id = u.step_id AND a.number = u.number
LEFT JOIN qd_worker_session w ON w.id = a.worker_session_id;

-- name: recovery_points
-- By workflow version, over so many of the newest runs: how many runs, and what each loss of a worker in them cost. Only a
-- specification that may have an objective is read.
WITH runs AS (
  SELECT r.id, r.workflow_version_id FROM qd_run r
  WHERE r.created_at >= %(since)s ORDER BY r.created_at DESC LIMIT %(bound)s),
named AS (
  SELECT f.name, v.number, v.id FROM qd_workflow_version v JOIN qd_workflow f ON f.id = v.workflow_id
  WHERE v.id IN (SELECT workflow_version_id FROM runs) AND (%(workflow)s::text IS NULL OR f.name = %(workflow)s::text)
  ORDER BY v.id DESC LIMIT %(versions)s),
lost AS (
  SELECT a.version_id AS id, array_agg({lost_work}) AS costs FROM (
    SELECT a.run_id, a.step_id, a.started_at, a.finished_at, a.worker_session_id, r.workflow_version_id AS version_id,
      row_number() OVER (PARTITION BY r.workflow_version_id ORDER BY a.finished_at DESC) AS place
    FROM runs r JOIN qd_attempt a ON a.run_id = r.id AND a.outcome = 'lost'
    WHERE r.workflow_version_id IN (SELECT id FROM named)) a
  LEFT JOIN qd_worker_session w ON w.id = a.worker_session_id WHERE a.place <= 5000 GROUP BY 1),
counted AS (SELECT workflow_version_id AS id, count(*) AS runs FROM runs GROUP BY 1)
SELECT n.name, n.number, n.id, c.runs,
  (SELECT CASE WHEN position('"recovery_point_s"'::bytea IN v.spec) > 0 THEN v.spec END
   FROM qd_workflow_version v WHERE v.id = n.id) AS spec, (SELECT count(*) FROM runs) AS looked_at, l.costs
FROM named n JOIN counted c ON c.id = n.id LEFT JOIN lost l ON l.id = n.id ORDER BY n.name, n.number DESC;

-- name: work_at_risk
-- By workflow version: how many steps run now, and what the loss of all workers would cost the worst of them (seconds).
SELECT r.workflow_version_id AS id, count(*) AS running, max({lost_work}) AS seconds
FROM (SELECT run_id, id, attempt FROM qd_step WHERE status = 'running' LIMIT 5000) s JOIN qd_run r ON r.id = s.run_id
JOIN qd_attempt a ON a.run_id = s.run_id AND a.step_id = s.id AND a.number = s.attempt
LEFT JOIN qd_worker_session w ON w.id = a.worker_session_id GROUP BY 1;
