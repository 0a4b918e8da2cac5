"""The database roles (engine.md 10): who owns the tables, who serves the web, who works.

The login of DATABASE_URL owns everything and migrates; a process then takes ``qd_web`` or ``qd_worker``, which own
nothing and stand under row-level security. ``qd_definer`` owns the few reviewed SECURITY DEFINER functions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runtime.kernel.errors import ConfigurationError

if TYPE_CHECKING:
    from psycopg import Connection

ROLES = ("qd_web", "qd_worker", "qd_definer")
OLDEST_MAJOR = 15


def check_version(number: int) -> None:
    """Refuse a server that is too old, by its ``server_version_num`` (150006 is 15.6). Raises ConfigurationError."""
    if number < OLDEST_MAJOR * 10_000:
        raise ConfigurationError(
            f"This PostgreSQL is version {number // 10_000}; {OLDEST_MAJOR} is the oldest that works.",
            remediation="Upgrade the server.",
        )


def role_statements(owner: str, database: str) -> list[str]:
    """Return the SQL an administrator runs once: it creates what is missing and may be run again.

    ``owner`` is the login of DATABASE_URL, which may be an ordinary role; ``database`` its database.
    """
    name = quote(owner)
    return [
        *(
            f"DO $$ BEGIN CREATE ROLE {role} NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE; "
            "EXCEPTION WHEN duplicate_object THEN NULL; END $$"
            for role in ROLES
        ),
        f"GRANT {', '.join(ROLES)} TO {name}",
        f"REVOKE ALL ON DATABASE {quote(database)} FROM PUBLIC",
        f"GRANT CONNECT, TEMPORARY ON DATABASE {quote(database)} TO {name}",
    ]


def create_roles(admin_url: str, owner: str, database: str) -> None:
    """Run :func:`role_statements` as the administrator of ``admin_url``. Raises psycopg.Error."""
    import psycopg

    with psycopg.connect(admin_url) as connection:
        for statement in role_statements(owner, database):
            connection.execute(statement.encode())


def owner_statements(owner: str, password: str) -> list[str]:
    """Return the SQL that creates the owning login of an embedded server, or sets its password anew."""
    name, secret = quote(owner), literal(password)
    return [
        f"DO $$ BEGIN CREATE ROLE {name} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"ALTER ROLE {name} LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB PASSWORD {secret}",
    ]


def create_database(connection: Connection[Any], name: str, owner: str, template: str = "template0") -> None:
    """Create database ``name`` for ``owner`` when it is not there; ``connection`` is an administrator's, autocommit."""
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
        connection.execute(f"CREATE DATABASE {quote(name)} OWNER {quote(owner)} TEMPLATE {quote(template)}")


def drop_database(connection: Connection[Any], name: str) -> None:
    """Drop database ``name`` together with the sessions that are still in it."""
    connection.execute(f"DROP DATABASE IF EXISTS {quote(name)} WITH (FORCE)")


def missing_roles(cursor: Any) -> list[str]:
    """Return the roles that are absent or that the current login may not take. ``cursor``: any DB-API cursor."""
    cursor.execute(
        """
        SELECT wanted FROM unnest(%s::text[]) AS wanted
         WHERE NOT EXISTS (SELECT 1 FROM pg_roles
                            WHERE rolname = wanted AND pg_has_role(session_user, oid, 'MEMBER'))
        """,
        [list(ROLES)],
    )
    missing = {row[0] for row in cursor.fetchall()}
    return [role for role in ROLES if role in missing]


@contextmanager
def only_migration(cursor: Any, patience_seconds: float = 600.0) -> Iterator[None]:
    """Hold the right to migrate this database; hosts that start together take turns. ``cursor``: the owner's.

    It polls: a session that waits inside a statement would block CREATE INDEX CONCURRENTLY of the one that migrates.
    Raises ConfigurationError when another migration holds it for longer than ``patience_seconds``.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        cursor.execute("SELECT pg_try_advisory_lock(hashtext('qd_migrate'))")
        if cursor.fetchone()[0]:
            break
        if time.monotonic() > deadline:
            raise ConfigurationError("Another migration of this database has not ended.")
        time.sleep(0.2)
    try:
        yield
    finally:
        cursor.execute("SELECT pg_advisory_unlock(hashtext('qd_migrate'))")


def quote(identifier: str) -> str:
    """Return ``identifier`` quoted for SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return ``text`` as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
