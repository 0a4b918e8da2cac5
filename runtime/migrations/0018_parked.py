"""Parked steps wait for something: they strand no run, and each tenant finds its own by what they wait for."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0017_limit_indexes")]

    operations = [
        migrations.RunSQL(schema_sql("parked"), migrations.RunSQL.noop),
        AddIndexConcurrently(
            "step",
            models.Index(
                models.F("blocked_on"),
                models.F("tenant"),
                models.OrderBy(models.F("priority"), descending=True),
                models.F("id"),
                name="qd_step_parked",
                condition=Q(("blocked_on__isnull", False), ("claimable", False), ("status", "queued")),
            ),
        ),
        RemoveIndexConcurrently("step", "qd_step_blocked"),
    ]
