"""`manage.py lintmigrations`: refuse migrations that would lock a big table while they work."""

from __future__ import annotations

import sys
from typing import Any

from runtime.management.cli import Act
from runtime.store.migration_lint import lint_project


class Command(Act):
    help = "Refuse migrations that would lock a big table while they work; prints JSON, exits with 1 when there is one."

    def act(self, options: dict[str, Any]) -> Any:
        found = lint_project(["runtime", "approvals", "repair", "dashboard"])
        refused = [{"migration": name, "why": str(why)} for name, reasons in found.items() for why in reasons]
        self.show({"ok": not refused, "refused": refused})
        for one in refused:
            self.stderr.write(f"{one['migration']}: {one['why']}")
        if refused:
            sys.exit(1)
        return None
