"""Failed runs by their end: what the alerts look at every few seconds."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0004_layout")]

    operations = [
        AddIndexConcurrently(
            "run",
            models.Index(
                models.F("tenant"),
                models.OrderBy(models.F("finished_at"), descending=True),
                name="qd_run_failed",
                condition=models.Q(status="failed"),
            ),
        )
    ]
