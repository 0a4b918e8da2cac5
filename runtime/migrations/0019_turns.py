"""Kept events come page by page; places in use are counted; a state stays taken past its writer's kill."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0018_parked")]

    operations = [
        migrations.RunSQL(schema_sql("turns"), migrations.RunSQL.noop),
        AddIndexConcurrently(
            "step",
            models.Index(
                models.F("serial"),
                name="qd_step_left_state",
                condition=Q(
                    ("serial__isnull", False), ("status__in", ["killed", "mark_successed"]), ("superseded", False)
                ),
            ),
        ),
    ]
