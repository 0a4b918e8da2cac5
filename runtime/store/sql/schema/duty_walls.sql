-- What only duties ask about every tenant is the worker's alone: the web, where strangers' texts come in, learns nothing of
-- other tenants' runs and business keys by it. The one of signals is no longer called by anybody.
REVOKE EXECUTE ON FUNCTION qd_orphaned_operations(int), qd_kept_signals(int) FROM qd_web;
