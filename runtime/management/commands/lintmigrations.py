"""`manage.py lintmigrations`: refuse migrations that would lock a big table while they work."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from runtime.store.migration_lint import lint_project


class Command(BaseCommand):
    help = "Refuse migrations that would lock a big table while they work; exit 1 when there is one."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        found = lint_project(["runtime", "approvals", "repair", "dashboard"])
        for name, refusals in found.items():
            for refusal in refusals:
                self.stderr.write(f"{name}: {refusal}")
        if found:
            raise CommandError(f"{len(found)} migration(s) would lock a big table.")
        self.stdout.write("migrations are fit to run under load")
