-- Failed sign-ins are counted by the web process and by nobody else; a worker need not know who tried.
GRANT SELECT, INSERT, UPDATE, DELETE ON axes_accessattempt, axes_accessattemptexpiration, axes_accesslog,
  axes_accessfailurelog TO qd_web;
DO $$ DECLARE s record; BEGIN
  FOR s IN SELECT c.oid::regclass AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = 'public' AND c.relkind = 'S' AND c.relname LIKE 'axes\_%' LOOP
    EXECUTE format('GRANT USAGE, SELECT ON SEQUENCE %s TO qd_web', s.name);
  END LOOP;
END $$;
REVOKE ALL ON axes_accessattempt, axes_accessattemptexpiration, axes_accesslog, axes_accessfailurelog FROM qd_worker;
