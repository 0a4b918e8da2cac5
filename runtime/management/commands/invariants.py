"""`manage.py invariants [--tenant SLUG]`: searches the live database for breaches; exit code 1 when there are any."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.tenants import tenant_by_slug
from runtime.management.cli import Act
from runtime.queries.invariants import SAMPLE, check_invariants
from runtime.store.directory import all_tenants


class Command(Act):
    help = "Check the numbered invariants of the law of states; prints JSON, exits with 1 on any breach."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", help="slug of one tenant (all of them)")
        parser.add_argument("--sample", type=int, default=SAMPLE, help=f"runs a tenant to fold from events ({SAMPLE})")

    def act(self, options: dict[str, Any]) -> Any:
        tenants = [tenant_by_slug(options["tenant"])] if options["tenant"] else all_tenants()
        findings = check_invariants(tenants, sample=options["sample"])
        self.show([finding.as_json() for finding in findings])
        if any(finding.ok is False for finding in findings):
            sys.exit(1)
        return None
