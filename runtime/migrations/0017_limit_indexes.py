"""Parked steps by what they wait for, and one writer at a time for a state; built while workers write."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0016_limits")]

    operations = [
        AddIndexConcurrently(
            "step",
            models.Index(
                models.F("blocked_on"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("id"),
                name="qd_step_blocked",
                condition=Q(("blocked_on__isnull", False), ("claimable", False), ("status", "queued")),
            ),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS qd_step_one_writer ON qd_step (serial) "
                    "WHERE serial IS NOT NULL AND status IN ('running', 'unknown')",
                    "DROP INDEX CONCURRENTLY IF EXISTS qd_step_one_writer",
                )
            ],
            state_operations=[
                migrations.AddConstraint(
                    "step",
                    models.UniqueConstraint(
                        fields=["serial"],
                        condition=Q(serial__isnull=False, status__in=["running", "unknown"]),
                        name="qd_step_one_writer",
                    ),
                )
            ],
        ),
    ]
