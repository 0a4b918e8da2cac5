"""`manage.py database start|stop|url|roles`: the embedded server by hand, and what an own PostgreSQL needs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from runtime.kernel.errors import ConfigurationError
from runtime.store import embedded
from runtime.store.roles import create_roles, role_statements


class Command(BaseCommand):
    help = (
        "start, stop: the embedded PostgreSQL. url: the address of the database. "
        "roles: the SQL an administrator of your own PostgreSQL runs once (--apply ADMIN_URL runs it)."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["start", "stop", "url", "roles"])
        parser.add_argument("--apply", metavar="ADMIN_URL", help="with roles: run the SQL as this administrator")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['act']}")(options)
        except ConfigurationError as error:
            raise CommandError(f"{error.detail} {error.remediation}".strip()) from None

    def _start(self, options: dict[str, Any]) -> None:
        self._only_embedded()
        self.stdout.write(embedded.ensure_running(settings.QUARTERDECK_DATA))

    def _stop(self, options: dict[str, Any]) -> None:
        self._only_embedded()
        embedded.stop(settings.QUARTERDECK_DATA)

    def _url(self, options: dict[str, Any]) -> None:
        self.stdout.write(settings.QUARTERDECK_DATABASE_URL)

    def _roles(self, options: dict[str, Any]) -> None:
        import psycopg

        database = settings.DATABASES["owner"]
        if not options["apply"]:
            statements = role_statements(database["USER"], database["NAME"])
            self.stdout.write("".join(f"{statement};\n" for statement in statements))
            return
        try:
            create_roles(options["apply"], database["USER"], database["NAME"])
        except psycopg.Error as error:
            raise CommandError(f"The roles were not created: {error}") from None
        self.stdout.write("roles are there")

    def _only_embedded(self) -> None:
        if not settings.QUARTERDECK_EMBEDDED:
            raise CommandError("DATABASE_URL names your own PostgreSQL: it is not started or stopped here.")
