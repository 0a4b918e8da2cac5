-- What only duties ask about every tenant is the worker's alone: the web, where strangers' texts come in, learns nothing of
-- other tenants' runs and business keys by it. Two of these are no longer called by anybody.
REVOKE EXECUTE ON FUNCTION qd_orphaned_operations(int), qd_overdue_cases(int), qd_settled_cases(int),
  qd_due_approvals(int), qd_kept_signals(int) FROM qd_web;
