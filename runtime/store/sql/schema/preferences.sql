-- What people chose for themselves is no tenant's, as auth_user is none's: the web writes it, mails are written by it.
GRANT SELECT, INSERT, UPDATE ON qd_preference TO qd_web;
GRANT SELECT ON qd_preference TO qd_worker;
