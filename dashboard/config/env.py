"""Reading the environment: typed values, the database address, the secret key. Nothing here starts a process."""

from __future__ import annotations

import os
import secrets
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from runtime.kernel.conf import Conf
from runtime.store import embedded

BASE_DIR = Path(__file__).resolve().parent.parent.parent
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
ROLES = {"owner": None, "web": "qd_web", "worker": "qd_worker"}

_ON, _OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class Env(environ.Env):
    """The environment, whose switches and numbers are refused by name when they are none."""

    def bool(self, var: str, default: Any = environ.Env.NOTSET) -> bool:
        """Return a switch; an empty one counts as not set. Raises ImproperlyConfigured for any other word.

        A misspelt one would else be off without a word, and with it what it was to protect.
        """
        given = self.str(var, default="").strip()
        if not given and default is not self.NOTSET:
            return bool(default)
        if (word := given.lower()) in (*_ON, *_OFF):
            return word in _ON
        raise ImproperlyConfigured(f"{var} is {given!r}; it is a switch: 1 or 0, true or false, yes or no, on or off.")

    def int(self, var: str, default: Any = environ.Env.NOTSET) -> int:
        """Return a whole number. Raises ImproperlyConfigured for what is none."""
        return self._number(super().int, var, default, "a whole number")

    def float(self, var: str, default: Any = environ.Env.NOTSET) -> float:
        """Return a number. Raises ImproperlyConfigured for what is none."""
        return self._number(super().float, var, default, "a number")

    def _number(self, read: Any, var: str, default: Any, kind: str) -> Any:
        try:
            return read(var, default=default)
        except ValueError as problem:
            raise ImproperlyConfigured(f"{var} is {os.environ.get(var)!r}; it is {kind}.") from problem


env = Env()


def data_dir() -> Path:
    """Return the folder for the embedded database, the secret key and run files (QUARTERDECK_DATA)."""
    return Path(os.path.abspath(env.str("QUARTERDECK_DATA", default=str(BASE_DIR / ".quarterdeck"))))


def secret_key() -> str:
    """Return SECRET_KEY, else the key that was generated once into the data folder (mode 0600)."""
    given = env.str("SECRET_KEY", default="")
    return given or embedded.secret(data_dir(), "secret_key", lambda: secrets.token_urlsafe(50))


def role() -> str:
    """Return the database role this process takes: owner, web or worker (QUARTERDECK_DB_ROLE)."""
    name = env.str("QUARTERDECK_DB_ROLE", default="web")
    if name not in ROLES:
        raise ImproperlyConfigured(f"QUARTERDECK_DB_ROLE is {name!r}; it is one of {', '.join(ROLES)}.")
    return name


def process_name() -> str:
    """Return what this process is, as the database shows it: web, or the command: worker, scheduler, heartbeat …"""
    if env.bool("QUARTERDECK_POOL", default=False):
        return "web"
    return sys.argv[1] if sys.argv[0].endswith("manage.py") and len(sys.argv) > 1 else role()


def log_level() -> str:
    """Return LOG_LEVEL in capitals. Raises ImproperlyConfigured when it is none."""
    given = env.str("LOG_LEVEL", default="INFO").strip().upper()
    if given not in LOG_LEVELS:
        raise ImproperlyConfigured(f"LOG_LEVEL is {given!r}; it is one of {', '.join(LOG_LEVELS)}.")
    return given


def database_url() -> str:
    """Return DATABASE_URL, else the address of the embedded database, running or not."""
    return env.str("DATABASE_URL", default="") or embedded.url(data_dir())


def databases(url: str) -> dict[str, dict[str, Any]]:
    """Return Django's DATABASES: ``default`` in this process's role, ``owner`` for migrations and set-up.

    The pool belongs to the web process only: forked workers that share one mix up their replies.
    """
    pooled = env.bool("QUARTERDECK_POOL", default=False)
    size = env.int("QUARTERDECK_POOL_SIZE", default=20)
    default = _database(url, ROLES[role()])
    if pooled:
        default["OPTIONS"]["pool"] = {"min_size": 1, "max_size": size, "timeout": 10}
    else:
        default["CONN_MAX_AGE"] = None
    return {"default": default, "owner": _database(url, None)}


def _database(url: str, role_name: str | None) -> dict[str, Any]:
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts: dict[str, Any] = dict(conninfo_to_dict(url))
    except Exception as error:
        raise ImproperlyConfigured("DATABASE_URL is not the address of a PostgreSQL database.") from error
    named = {key: str(parts.pop(name, "")) for key, name in _DJANGO_NAMES.items()}
    options = [parts.pop("options", "")]
    if role_name:
        # What the address asks for itself comes after these, and wins.
        options = [_left_open(), *options, f"-c role={role_name}"]
    if role_name == "qd_worker":
        options.append(_WORKER_PLANS)
    parts["options"] = " ".join(filter(None, options))
    for name, value in _LINE.items():
        parts.setdefault(name, value)
    parts.setdefault("application_name", f"quarterdeck {process_name()}")
    parts["prepare_threshold"] = env.int("QUARTERDECK_PREPARE_THRESHOLD", default=5) or None
    return {
        "ENGINE": "django.db.backends.postgresql",
        **named,
        "OPTIONS": parts,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
    }


def _left_open() -> str:
    """Return the settings by which the server gives up a transaction that nobody goes on with, and frees its locks.

    Its process may be stopped, or its host gone without a word; TCP alone notices the latter after two hours.
    """
    seconds = env.float("QUARTERDECK_IDLE_TRANSACTION_SECONDS", default=15.0)
    if seconds <= 0:
        return ""
    limit, probe = round(seconds * 1000), max(1, round(seconds / 3))
    return (
        f"-c idle_in_transaction_session_timeout={limit} -c tcp_user_timeout={limit}"
        f" -c tcp_keepalives_idle={probe} -c tcp_keepalives_interval={probe} -c tcp_keepalives_count=2"
    )


# A database host that vanished says nothing: what listens, or waits for an answer, finds out by asking. A lease is 15 s
# long, and who waits no longer than it is told before others act on its silence. Over a socket file they mean nothing.
_LINE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,  # milliseconds
}
# A worker's statements are few, each made for one index, and run thousands of times a second: they are planned once,
# and never as a scan of a table that was small when the plan was made.
_WORKER_PLANS = (
    "-c plan_cache_mode=force_generic_plan -c jit=off"
    " -c enable_hashjoin=off -c enable_mergejoin=off -c enable_seqscan=off"
)
_DJANGO_NAMES = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}


def engine_limits() -> dict[str, Any]:
    """Return settings.QUARTERDECK: each field of ``Conf`` that QUARTERDECK_<FIELD> sets, in the type of its default."""
    readers = {"float": env.float, "int": env.int, "str": env.str}
    limits: dict[str, Any] = {}
    for field in fields(Conf):
        name = f"QUARTERDECK_{field.name.upper()}"
        if name not in os.environ:
            continue
        kind = str(field.type)
        try:
            limits[field.name] = tuple(env.list(name)) if kind.startswith("tuple") else readers[kind](name)
        except ValueError as problem:
            raise ImproperlyConfigured(f"{name} is {os.environ[name]!r}; it is a number ({kind}).") from problem
    return limits
