"""`manage.py law [--out FILE]`: writes the law of states as a page; build/law.html by default, not tracked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from runtime.machine.page import law_page


class Command(BaseCommand):
    help = "Write the law of states as an HTML page, generated from the code. Needs no database."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--out", default="build/law.html", help="where to (build/law.html)")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(settings.BASE_DIR) / options["out"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(law_page(), encoding="utf-8")
        self.stdout.write(str(path))
