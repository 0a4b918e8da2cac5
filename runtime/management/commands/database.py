"""`manage.py database start|stop|url|roles`: the embedded server by hand, and what an own PostgreSQL needs."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from runtime.kernel.errors import ConfigurationError
from runtime.management.cli import Act
from runtime.store import embedded
from runtime.store.roles import create_roles, role_statements


class Command(Act):
    help = (
        "start, stop: the embedded PostgreSQL. url: the address of the database. "
        "roles: the SQL an administrator of your own PostgreSQL runs once (--apply ADMIN_URL runs it). "
        "url and roles print text for a shell, JSON with --json."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["start", "stop", "url", "roles"])
        parser.add_argument("--apply", metavar="ADMIN_URL", help="with roles: run the SQL as this administrator")
        parser.add_argument("--json", action="store_true", help="with url and roles: print JSON")

    def act(self, options: dict[str, Any]) -> Any:
        return getattr(self, f"_{options['act']}")(options)

    def _start(self, options: dict[str, Any]) -> dict[str, Any]:
        self._only_embedded()
        return {"url": embedded.ensure_running(settings.QUARTERDECK_DATA)}

    def _stop(self, options: dict[str, Any]) -> dict[str, Any]:
        self._only_embedded()
        embedded.stop(settings.QUARTERDECK_DATA)
        return {"stopped": True}

    def _url(self, options: dict[str, Any]) -> Any:
        if options["json"]:
            return {"url": settings.QUARTERDECK_DATABASE_URL}
        self.stdout.write(settings.QUARTERDECK_DATABASE_URL)
        return None

    def _roles(self, options: dict[str, Any]) -> Any:
        import psycopg

        database = settings.DATABASES["owner"]
        statements = role_statements(database["USER"], database["NAME"])
        if options["apply"]:
            try:
                create_roles(options["apply"], database["USER"], database["NAME"])
            except psycopg.Error as error:
                raise ConfigurationError(
                    f"The roles were not created: {error}", remediation="Name an administrator of the server."
                ) from None
            return {"applied": True, "statements": statements}
        if options["json"]:
            return {"applied": False, "statements": statements}
        self.stdout.write("".join(f"{statement};\n" for statement in statements))
        return None

    def _only_embedded(self) -> None:
        if not settings.QUARTERDECK_EMBEDDED:
            raise ConfigurationError(
                "DATABASE_URL names your own PostgreSQL: it is not started or stopped here.",
                remediation="Start and stop it as its administrator does, or leave DATABASE_URL out.",
            )
