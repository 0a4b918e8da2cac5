"""`manage.py migrate`: Django's, but as the owner, on a started embedded server, and with the roles checked first."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands.migrate import Command as Migrate
from django.db import OperationalError, connections

from runtime.kernel.errors import ConfigurationError
from runtime.store import roles


class Command(Migrate):
    # `manage.py check` looks at pages and addresses; a migration needs the tables' models only.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.set_defaults(database="owner")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._ensure_server()
            self._check_roles(options["database"])
            with connections[options["database"]].cursor() as cursor, roles.only_migration(cursor):
                super().handle(*args, **options)
        except ConfigurationError as error:
            raise CommandError(f"{error.detail} {error.remediation}".strip()) from None

    def _ensure_server(self) -> None:
        if settings.QUARTERDECK_EMBEDDED:
            from runtime.store import embedded

            embedded.ensure_running(settings.QUARTERDECK_DATA)

    def _check_roles(self, alias: str) -> None:
        connection = connections[alias]
        try:
            with connection.cursor() as cursor:
                missing = roles.missing_roles(cursor)
        except OperationalError as error:
            raise CommandError(f"The database cannot be reached: {error}") from None
        roles.check_version(connection.pg_version)  # type: ignore[attr-defined]
        if missing:
            raise ConfigurationError(
                f"The login {connection.settings_dict['USER']} may not take the database role(s) {', '.join(missing)}.",
                remediation=(
                    "Let an administrator of the server run what `python manage.py database roles` prints, "
                    "or run `python manage.py database roles --apply ADMIN_URL`."
                ),
            )
