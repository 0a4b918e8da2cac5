"""What the environment may say, and what happens when it says nonsense."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client

from dashboard.config import env
from dashboard.config.checks import check_names, check_redis
from runtime.kernel.conf import Conf


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    for name in ("QUARTERDECK_POOL", "QUARTERDECK_DB_ROLE"):
        monkeypatch.delenv(name, raising=False)


def test_a_database_address_in_any_libpq_form():
    found = env.databases("postgresql://ada:p%40ss@db.example:6432/deck?sslmode=require")["default"]
    assert (found["USER"], found["PASSWORD"], found["HOST"], found["PORT"], found["NAME"]) == (
        *("ada", "p@ss", "db.example", "6432", "deck"),
    )
    assert found["OPTIONS"]["sslmode"] == "require"
    socket = env.databases("postgresql://ada@/deck?host=%2Fvar%2Frun%2Fa%20folder")["owner"]
    assert (socket["HOST"], socket["NAME"]) == ("/var/run/a folder", "deck")
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        env.databases("mysql://nothing")


def test_each_process_takes_its_role_and_keeps_what_the_address_asks_for(monkeypatch):
    url = "postgresql:///deck?options=-c%20search_path%3Dours"
    assert env.databases(url)["default"]["OPTIONS"]["options"].endswith(" -c search_path=ours -c role=qd_web")
    monkeypatch.setenv("QUARTERDECK_DB_ROLE", "worker")
    assert "-c search_path=ours -c role=qd_worker " in env.databases(url)["default"]["OPTIONS"]["options"]
    assert env.databases(url)["owner"]["OPTIONS"]["options"] == "-c search_path=ours"
    monkeypatch.setenv("QUARTERDECK_DB_ROLE", "king")
    with pytest.raises(ImproperlyConfigured, match="owner, web, worker"):
        env.databases(url)


def test_no_role_but_the_owners_leaves_a_transaction_open_for_long(monkeypatch):
    url = "postgresql:///deck"

    def options(alias: str = "default") -> list[str]:
        return env.databases(url)[alias]["OPTIONS"]["options"].replace("-c ", "").split()

    wanted = {"idle_in_transaction_session_timeout=15000", "tcp_user_timeout=15000"}
    wanted |= {"tcp_keepalives_idle=5", "tcp_keepalives_interval=5", "tcp_keepalives_count=2"}
    assert wanted <= {*options()}
    monkeypatch.setenv("QUARTERDECK_DB_ROLE", "worker")
    assert wanted <= {*options()}
    assert options("owner") == []
    monkeypatch.setenv("QUARTERDECK_IDLE_TRANSACTION_SECONDS", "2.5")
    assert "idle_in_transaction_session_timeout=2500" in options()
    monkeypatch.setenv("QUARTERDECK_IDLE_TRANSACTION_SECONDS", "0")
    assert not [one for one in options() if "idle" in one or "tcp" in one]
    url += "?options=-c%20idle_in_transaction_session_timeout%3D9"
    monkeypatch.delenv("QUARTERDECK_IDLE_TRANSACTION_SECONDS")
    assert [one for one in options() if one.startswith("idle")][-1].endswith("=9"), "the address has the last word"


@pytest.mark.req("C2.9")
def test_an_address_has_the_last_word_on_keepalives(monkeypatch):
    def line(url: str, alias: str) -> dict[str, str]:
        options = env.databases(url)[alias]["OPTIONS"]
        return {name: str(value) for name, value in options.items() if name.startswith(("keepalives", "tcp_"))}

    wanted = {"keepalives": "1", "keepalives_idle": "5", "keepalives_interval": "5", "keepalives_count": "2"}
    wanted["tcp_user_timeout"] = "15000"
    assert line("postgresql:///deck", "default") == line("postgresql:///deck", "owner") == wanted
    url = "postgresql://db.example/deck?keepalives_idle=60&keepalives_count=9&tcp_user_timeout=0"
    own = {"keepalives_idle": "60", "keepalives_count": "9", "tcp_user_timeout": "0"}
    assert line(url, "default") == line(url, "owner") == {**wanted, **own}
    monkeypatch.setenv("QUARTERDECK_POOL", "1")
    assert line(url, "default") == {**wanted, **own}


def test_only_the_web_process_pools(monkeypatch):
    assert "pool" not in env.databases("postgresql:///deck")["default"]["OPTIONS"]
    assert env.databases("postgresql:///deck")["default"]["CONN_MAX_AGE"] is None
    monkeypatch.setenv("QUARTERDECK_POOL", "1")
    found = env.databases("postgresql:///deck")
    assert found["default"]["OPTIONS"]["pool"]["max_size"] == 20
    assert found["default"]["CONN_MAX_AGE"] == 0
    assert "pool" not in found["owner"]["OPTIONS"]


def test_limits_of_the_engine_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("QUARTERDECK_LEASE_SECONDS", "7.5")
    monkeypatch.setenv("QUARTERDECK_SLOTS", "4")
    monkeypatch.setenv("QUARTERDECK_POOLS", "default,gpu")
    conf = Conf(**env.engine_limits())
    assert (conf.lease_seconds, conf.slots, conf.pools) == (7.5, 4, ("default", "gpu"))
    monkeypatch.setenv("QUARTERDECK_SLOTS", "many")
    with pytest.raises(ImproperlyConfigured, match="QUARTERDECK_SLOTS is 'many'"):
        env.engine_limits()


def test_the_secret_key_is_made_once_and_kept_private(monkeypatch, tmp_path):
    monkeypatch.setenv("QUARTERDECK_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("SECRET_KEY", raising=False)
    first = env.secret_key()
    assert len(first) > 50
    assert env.secret_key() == first
    assert (tmp_path / "data" / "secret_key").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("SECRET_KEY", "given")
    assert env.secret_key() == "given"


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
def test_system_checks_find_what_cannot_work(settings):
    from runtime import checks

    assert checks.check_database() == []
    assert checks.check_limits() == []
    settings.DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3"}}
    assert [error.id for error in checks.check_database()] == ["quarterdeck.E001"]
    settings.DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {"pool": True}}}
    settings.QUARTERDECK_ROLE = "worker"
    assert [error.id for error in checks.check_database()] == ["quarterdeck.E002"]
    settings.QUARTERDECK = {"lease_seconds": 1.0, "poll_seconds": 1.0}
    assert [error.id for error in checks.check_limits()] == ["quarterdeck.E003"]
    settings.QUARTERDECK = {"no_such_limit": 1}
    assert [error.id for error in checks.check_limits()] == ["quarterdeck.E003"]


@pytest.mark.req("C3.5")
def test_answers_are_never_kept_for_less_time_than_a_message_may_come_again(settings):
    """Retention ≥ redelivery window: else a late duplicate would find its key without the answer that it had."""
    from runtime import checks
    from runtime.kernel.conf import Conf

    assert Conf().operation_retention_days >= checks.REDELIVERY_DAYS
    settings.QUARTERDECK = {"operation_retention_days": checks.REDELIVERY_DAYS - 0.5}
    (found,) = checks.check_limits()
    assert (found.id, found.is_serious()) == ("quarterdeck.E004", True)
    assert str(checks.REDELIVERY_DAYS) in found.hint
    settings.QUARTERDECK = {"operation_retention_days": float(checks.REDELIVERY_DAYS)}
    assert checks.check_limits() == []


@pytest.mark.req("C6.2")
@pytest.mark.parametrize("given", [{"live_most_each": 0}, {"live_most": 10, "live_most_each": 11}])
def test_one_person_may_open_a_stream_and_no_more_than_there_are(settings, given):
    from runtime import checks
    from runtime.kernel.conf import Conf

    assert 1 <= Conf().live_most_each <= Conf().live_most
    settings.QUARTERDECK = given
    (found,) = checks.check_limits()
    assert (found.id, found.is_serious()) == ("quarterdeck.E005", True)


def test_a_log_level_that_is_none_is_named(monkeypatch):
    monkeypatch.setenv("LOG_LEVEL", "warning")
    assert env.log_level() == "WARNING"
    monkeypatch.setenv("LOG_LEVEL", "LOUD")
    with pytest.raises(ImproperlyConfigured, match="LOG_LEVEL is 'LOUD'; it is one of DEBUG, INFO"):
        env.log_level()


def test_a_variable_that_nobody_reads_is_told_with_the_nearest_name(monkeypatch):
    monkeypatch.setenv("QUARTERDECK_TOOL_ACME_KEY", "x")
    assert check_names() == []
    monkeypatch.setenv("QUARTERDECK_LEASE_SECOND", "7")
    (found,) = check_names()
    assert (found.id, found.msg) == ("quarterdeck.W101", "QUARTERDECK_LEASE_SECOND means nothing here.")
    assert found.hint == "Did you mean QUARTERDECK_LEASE_SECONDS?"


def test_browsers_are_told_to_come_back_over_tls_where_that_is_asked_for(settings, client):
    assert "Strict-Transport-Security" not in client.get("/healthz", secure=True)
    settings.SECURE_HSTS_SECONDS = 3600
    assert Client().get("/healthz", secure=True)["Strict-Transport-Security"] == "max-age=3600"
    assert "Strict-Transport-Security" not in Client().get("/healthz"), "not to who came without it"


def test_redis_without_its_packages_is_told_at_the_start(settings, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert check_redis() == []
    settings.REDIS_URL = "redis://127.0.0.1:6379/0"
    (found,) = check_redis()
    assert (found.id, found.msg) == (
        "quarterdeck.E102",
        "REDIS_URL is set, and redis and channels_redis cannot be imported.",
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert check_redis() == []


SWITCHES = ["DEBUG", "SECURE_COOKIES", "BEHIND_TLS_PROXY", "EMAIL_TLS", "LOG_JSON", "QUARTERDECK_POOL"]


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_that_is_neither_on_nor_off_is_refused_by_name(monkeypatch, name):
    for words, wanted in ((("1", "true", "Yes", " on "), True), (("0", "False", "no", "OFF", ""), False)):
        for word in words:
            monkeypatch.setenv(name, word)
            assert env.env.bool(name, default=False) is wanted, word
    for word in ("enabled", "maybe", "2", "ja"):
        monkeypatch.setenv(name, word)
        with pytest.raises(ImproperlyConfigured, match=f"{name} is '{word}'; it is a switch: 1 or 0"):
            env.env.bool(name, default=False)


def test_every_switch_of_the_settings_is_one_of_those_and_read_by_the_rule():
    """A new switch is read by ``env.bool`` too, and stands in the list above."""
    source = "".join((env.BASE_DIR / "dashboard" / "config" / name).read_text() for name in ("settings.py", "env.py"))
    assert sorted(set(re.findall(r'env\.bool\("(\w+)"', source))) == sorted(SWITCHES)
    table = re.findall(r"^\| `(\w+)` \| `0` \|", (env.BASE_DIR / "README.md").read_text(), re.MULTILINE)
    assert set(SWITCHES) <= set(table), "README's switches"


@pytest.mark.parametrize(("name", "word"), [("SECURE_COOKIES", "maybe"), ("EMAIL_PORT", "smtp"), ("LOG_JSON", "json")])
def test_the_command_line_says_which_variable_is_wrong(name, word):
    command = [sys.executable, "manage.py", "check"]
    told = subprocess.run(command, cwd=env.BASE_DIR, env={**os.environ, name: word}, capture_output=True, text=True)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith(f"Configuration: {name} is '{word}'; it is a ")
