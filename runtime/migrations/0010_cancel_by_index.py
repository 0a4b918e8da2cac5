"""Cancelled runs by the time at which what still works in them is killed: what a duty looks at every second."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0009_compensation")]

    operations = [
        AddIndexConcurrently(
            "run",
            models.Index(
                models.F("cancel_by"),
                name="qd_run_cancel_by",
                condition=models.Q(cancel_by__isnull=False)
                & ~models.Q(status__in=("completed", "partially_completed", "failed", "cancelled")),
            ),
        )
    ]
