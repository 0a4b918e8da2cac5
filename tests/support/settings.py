"""Settings of the tests: the project's own, on a throwaway server in a throwaway folder."""

from tests.support import db

db.prepare_environment()

from dashboard.config.settings import *  # noqa: E402, F403

# A fast hash: tests sign in often and prove nothing about scrypt.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ALLOWED_HOSTS = ["*"]
# A test that drains in its own process has no heartbeat: the session outlives every wait for what it is to do.
QUARTERDECK = {**QUARTERDECK, "lease_seconds": 300.0}
