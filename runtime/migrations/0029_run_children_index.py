"""Children are found by their parent (C1.2); built while workers write, and begun again where it failed half way."""

from django.db import migrations, models
from django.db.models import F, Q

_CREATE = "CREATE INDEX CONCURRENTLY qd_run_children ON qd_run (parent_id, id DESC) WHERE parent_id IS NOT NULL"


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0028_in_hand")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                # A build that failed leaves an invalid index of this name.
                migrations.RunSQL(
                    [
                        "DROP INDEX CONCURRENTLY IF EXISTS qd_run_children",
                        _CREATE,
                    ],
                    "DROP INDEX CONCURRENTLY IF EXISTS qd_run_children",
                )
            ],
            state_operations=[
                migrations.AddIndex(
                    "run",
                    models.Index(
                        F("parent_id"), F("id").desc(), name="qd_run_children", condition=Q(parent_id__isnull=False)
                    ),
                )
            ],
        ),
    ]
