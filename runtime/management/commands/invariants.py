"""`manage.py invariants [--tenant SLUG] [--cases]`: searches the live database for breaches; exit code 1 for any."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.breaches import need_breach_case
from runtime.actions.tenants import tenant_by_slug
from runtime.management.cli import Act
from runtime.queries.invariants import SAMPLE, Invariant, check_invariants
from runtime.store.directory import TenantRow, all_tenants


class Command(Act):
    help = "Check the numbered invariants of the law of states; prints JSON, exits with 1 on any breach."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tenant", help="slug of one tenant (all of them)")
        parser.add_argument("--sample", type=int, default=SAMPLE, help=f"runs a tenant to fold from events ({SAMPLE})")

        parser.add_argument(
            "--cases", action="store_true", help="open a repair case for each that a tenant's rows breach"
        )

    def act(self, options: dict[str, Any]) -> Any:
        tenants = [tenant_by_slug(options["tenant"])] if options["tenant"] else all_tenants()
        told = _need_case if options["cases"] else None
        findings = check_invariants(tenants, sample=options["sample"], on_breach=told)
        self.show([finding.as_json() for finding in findings])
        if any(finding.ok is False for finding in findings):
            sys.exit(1)
        return None


def _need_case(tenant: TenantRow, one: Invariant, rows: list[tuple[Any, ...]]) -> None:
    need_breach_case(tenant.id, one.number, one.name, rows)
