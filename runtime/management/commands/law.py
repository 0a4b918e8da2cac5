"""`manage.py law [--out FILE]`: writes the law of states as a page; build/law.html by default, not tracked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from runtime.kernel.errors import BadInput
from runtime.machine.page import law_page
from runtime.management.cli import Act


class Command(Act):
    help = "Write the law of states as an HTML page, generated from the code, and print its path. Needs no database."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--out", default="build/law.html", help="where to (build/law.html)")

    def act(self, options: dict[str, Any]) -> Any:
        path = Path(settings.BASE_DIR) / options["out"]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(law_page(), encoding="utf-8")
        except OSError as problem:
            raise BadInput(
                f"{path}: {problem.strerror}.", where="--out", remediation="Name a file that can be written."
            ) from None
        return {"path": str(path)}
