"""The list of runs by how they ended, and those with steps that ended badly: never by a walk over the good ones."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0007_sign_ins")]

    operations = [
        AddIndexConcurrently(
            "run",
            models.Index(
                models.F("tenant"),
                models.F("status"),
                models.OrderBy(models.F("created_at"), descending=True),
                name="qd_run_ended_otherwise",
                condition=models.Q(status__in=["partially_completed", "failed", "cancelled"]),
            ),
        ),
        AddIndexConcurrently(
            "run",
            models.Index(
                models.F("tenant"),
                models.OrderBy(models.F("created_at"), descending=True),
                name="qd_run_bad",
                condition=models.Q(n_bad__gt=0),
            ),
        ),
    ]
