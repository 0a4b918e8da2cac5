"""An own PostgreSQL: an ordinary login, roles an administrator creates once, then `manage.py migrate`."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from runtime.kernel.errors import ConfigurationError
from runtime.store import roles
from tests.support import db as support
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def login(database: support.Database) -> Iterator[tuple[str, str]]:
    """A login that is nothing but the owner of an empty database; yields its name and its address."""
    name = f"own_{uuid.uuid4().hex[:8]}"
    with support.admin() as admin:
        for statement in roles.owner_statements(name, "secret"):
            admin.execute(statement.encode())
        roles.create_database(admin, name, name)
    url = database.url.replace(f"//{support.OWNER}:", f"//{name}:", 1)
    before, _, after = url.partition("@")
    yield name, support.with_name(f"{before.rpartition(':')[0]}:secret@{after}", name)
    support.drop(name)
    with support.admin() as admin:
        admin.execute(f"DROP ROLE {name}".encode())


def manage(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = support.Database("unused").environ(DATABASE_URL=url)
    command = [sys.executable, str(ROOT / "manage.py"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patient(60), check=False)


@pytest.mark.slow
def test_roles_first_then_migrate(login):
    name, url = login
    refused = manage(url, "migrate")
    assert refused.returncode == 1
    assert "qd_web, qd_worker, qd_definer" in refused.stderr
    assert "manage.py database roles" in refused.stderr
    printed = manage(url, "database", "roles").stdout
    assert f'GRANT qd_web, qd_worker, qd_definer TO "{name}"' in printed
    assert manage(url, "database", "roles", "--apply", support.server().admin_url(name)).returncode == 0
    done = manage(url, "migrate", "-v", "0")
    assert done.returncode == 0, done.stderr
    assert manage(url, "database", "url").stdout == f"{url}\n", "text, for a shell"
    assert json.loads(manage(url, "database", "url", "--json").stdout) == {"url": url}
    refused = manage(url, "database", "stop")
    assert "not started or stopped here" in json.loads(refused.stderr)["detail"]
    assert (refused.returncode, refused.stdout) == (1, "")


def test_a_database_nobody_migrated_is_said_in_words(login):
    name, url = login
    assert manage(url, "database", "roles", "--apply", support.server().admin_url(name)).returncode == 0
    refused = manage(url, "runs")
    assert refused.returncode == 1
    problem = json.loads(refused.stderr)
    assert (problem["code"], problem["remediation"]) == ("unavailable", "Is the database up and migrated?")
    assert "does not exist" in problem["detail"]


@pytest.mark.parametrize("number", [90_624, 130_015, 149_999])
def test_a_server_that_is_too_old_is_refused(number):
    with pytest.raises(ConfigurationError) as refused:
        roles.check_version(number)
    major = number // 10_000
    assert str(refused.value.detail) == f"This PostgreSQL is version {major}; 15 is the oldest that works."
    assert refused.value.remediation == "Upgrade the server."


def test_the_server_of_the_tests_is_new_enough(database):
    with database.connect() as connection:
        (number,) = connection.execute("SHOW server_version_num").fetchone()
    roles.check_version(int(number))
    roles.check_version(150_000)


def test_migrate_asks_for_the_servers_version(database, monkeypatch):
    asked = []
    monkeypatch.setattr(roles, "check_version", asked.append)
    call_command("migrate", verbosity=0, interactive=False)
    with database.connect() as connection:
        assert [str(number) for number in asked] == list(connection.execute("SHOW server_version_num").fetchone())


@pytest.mark.slow
def test_the_runtime_migrates_by_itself(login):
    """The lower floor needs nothing of those above it, nor leans on the order in which they are named."""
    name, url = login
    assert manage(url, "database", "roles", "--apply", support.server().admin_url(name)).returncode == 0
    for app in ("runtime", "repair", "approvals"):
        done = manage(url, "migrate", app, "-v", "0")
        assert done.returncode == 0, done.stderr


def test_an_address_nobody_answers_is_said_in_words():
    refused = manage("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2", "migrate")
    assert refused.returncode == 1
    assert "cannot be reached" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_migrations_take_turns(database):
    from django.db import connections

    from runtime.kernel.errors import ConfigurationError

    with database.connect() as other, connections["owner"].cursor() as cursor:
        with roles.only_migration(other.cursor()):
            with pytest.raises(ConfigurationError, match="Another migration"), roles.only_migration(cursor, 0.3):
                pass
        with roles.only_migration(cursor, 0.3):
            pass
