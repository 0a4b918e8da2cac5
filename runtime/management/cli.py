"""What the commands share: who acts, how an answer and a problem are printed, how they exit."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import psycopg
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from psycopg import errors as pg_errors

from runtime.access.roles import verbs_of_role
from runtime.actions.tenants import tenant_by_slug
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import parse_strict
from runtime.kernel.errors import BadInput, PayloadTooLarge, QuarterdeckError, Unavailable
from runtime.kernel.ids import parse_uuid
from runtime.queries.base import Page

_REFERENCE = re.compile(r"([a-z][a-z0-9_.-]{0,180})@([1-9][0-9]{0,8})")
# The database is not there, or what a migration would have made in it is not.
_AWAY = (
    DatabaseError,
    psycopg.OperationalError,
    pg_errors.UndefinedTable,
    pg_errors.UndefinedFunction,
    pg_errors.UndefinedColumn,
)


def service_actor(tenant: str | None) -> Actor:
    """Return the command line as an actor with an admin's verbs in a tenant; without a slug the only one, or acme.

    Whoever may run ``manage.py`` holds the database's password: this is no wall, it is who the audit names.
    """
    row = tenant_by_slug(tenant)
    return Actor(kind="service", name="cli", tenant_id=row.id, verbs=verbs_of_role("admin"))


def every(read: Callable[..., Page], **asked: Any) -> Iterator[Any]:
    """Yield the items of all pages of a list; ``read`` takes ``cursor`` beside what is asked."""
    cursor = None
    while True:
        page = read(cursor=cursor, **asked)
        yield from page.items
        if (cursor := page.next) is None:
            return


def read_file(name: str, *, limit: int) -> bytes:
    """Return the bytes of a file, of standard input for ``-``. Raises BadInput, PayloadTooLarge."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(limit + 1)
        else:
            with Path(name).open("rb") as file:
                raw = file.read(limit + 1)
    except OSError as problem:
        raise BadInput(f"{name}: {problem.strerror}.", where=name, remediation="Name a readable file, or -.") from None
    if len(raw) > limit:
        raise PayloadTooLarge(f"{name} has more than {limit} bytes.", limit=limit)
    return raw


def read_json(name: str, *, limit: int, max_depth: int = 64) -> Any:
    """Return the strictly parsed JSON of a file. Raises as ``read_file`` and ``parse_strict`` do."""
    return parse_strict(read_file(name, limit=limit), max_bytes=limit, max_depth=max_depth)


def identity(text: str) -> Any:
    """Return the id in an argument. Raises BadInput when it is none."""
    value = parse_uuid(text)
    if value is None:
        raise BadInput(f"{text[:80]!r} is no id.", where="ID", remediation="Give a UUID as the lists print it.")
    return value


def reference(text: str, example: str) -> tuple[str, int]:
    """Return name and version of a tool or verifier. Raises BadInput when ``text`` is not name@version."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        raise BadInput(
            f"{text[:100]!r} is no name@version.",
            where="reference",
            remediation=f"Write name@version, for example {example}.",
        )
    return match[1], int(match[2])


class Act(BaseCommand):
    """A command that calls one action and prints its answer as JSON.

    A problem is printed to standard error as its problem detail; the exit code is 1 then, 2 for wrong usage.
    """

    requires_system_checks: list[str] = []

    def act(self, options: dict[str, Any]) -> Any:
        """Do the work and return what to print, an iterator for the items of a list; None prints nothing."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            answer = self.act(options)
            if isinstance(answer, Iterator):
                for item in answer:
                    self.show(item)
                answer = None
        except QuarterdeckError as problem:
            self.refuse(problem)
        except (DatabaseError, psycopg.Error) as problem:
            if not isinstance(problem, _AWAY):
                raise
            text = str(problem).strip().splitlines()
            self.refuse(Unavailable(text[0] if text else "", remediation="Is the database up and migrated?"))
        else:
            if answer is not None:
                self.show(answer)

    def refuse(self, problem: QuarterdeckError) -> None:
        """Print a problem detail and exit with 1."""
        self.stderr.write(_dump(problem.as_problem()), ending="\n")
        sys.exit(1)

    def show(self, answer: Any) -> None:
        """Print an answer: readable on a terminal, one line otherwise."""
        self.stdout.write(_dump(answer, pretty=sys.stdout.isatty()))


def _dump(value: Any, *, pretty: bool = True) -> str:
    option = orjson.OPT_UTC_Z | (orjson.OPT_INDENT_2 if pretty else 0)
    return orjson.dumps(value, default=str, option=option).decode()


__all__ = ["Act", "CommandError", "every", "identity", "read_file", "read_json", "reference", "service_actor"]
