-- name: parts_alive
-- Workers by their leases; the scheduler by its connections, which it keeps open and which name a duty that fails.
SELECT (SELECT count(*) FROM qd_worker_session WHERE ended_at IS NULL AND lease_until > qd_now()),
       (SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND starts_with(application_name, 'quarterdeck scheduler')),
       (SELECT array_agg(DISTINCT substr(application_name, 33)) FROM pg_stat_activity
         WHERE datname = current_database() AND starts_with(application_name, 'quarterdeck scheduler, failing: '));

-- name: name_connection
SELECT set_config('application_name', %s, false);

-- name: engine_numbers
-- A worker may have claimed more than it has places for: what runs in its own thread, or waits for a place.
SELECT qd_queue_depth(%s), count(*), coalesce(sum(w.slots), 0), coalesce(sum(least(w.slots, coalesce(b.n, 0))), 0)::bigint,
  coalesce(extract(epoch FROM qd_now() - qd_oldest_unsent()), 0)::float8
FROM qd_worker_session w LEFT JOIN qd_running_steps() b(session, n) ON b.session = w.id
WHERE w.ended_at IS NULL AND w.lease_until > qd_now();

-- name: pool_queues
-- By pool, without any tenant: how deep its queue is and how long its oldest step has waited (seconds).
SELECT pool, depth, coalesce(extract(epoch FROM qd_now() - oldest), 0)::float8 FROM qd_pool_queues(%s) ORDER BY pool;
