-- What only duties ask about every tenant's cases is the worker's alone: the web never called it.
REVOKE EXECUTE ON FUNCTION qd_overdue_cases(int), qd_settled_cases(int) FROM qd_web;
