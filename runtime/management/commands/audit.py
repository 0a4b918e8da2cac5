"""`manage.py audit verify [--tenant]`: walk the audit chains; exit with 1 on any breach."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.tenants import tenant_by_slug
from runtime.journal.audit import verify
from runtime.management.cli import Act
from runtime.store.directory import all_tenants


class Command(Act):
    help = "Verify the audit chain of every tenant, or of one; names each edited, deleted or reordered entry."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("act", choices=["verify"])
        parser.add_argument("--tenant", help="slug of one tenant (all)")

    def act(self, options: dict[str, Any]) -> Any:
        tenants = [tenant_by_slug(options["tenant"])] if options["tenant"] else all_tenants()
        broken = False
        for tenant in tenants:
            report = verify(tenant.id)
            broken = broken or not report.ok
            self.show({"tenant": tenant.slug, **report.as_json()})
        if broken:
            sys.exit(1)
        return None
