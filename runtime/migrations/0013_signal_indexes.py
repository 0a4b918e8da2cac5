"""The inbox by run, of what is kept, and by the step that got it."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0012_signals")]

    operations = [
        AddIndexConcurrently(
            "inbox",
            models.Index(
                models.F("run_id"), name="qd_inbox_kept", condition=Q(handled_at__isnull=True, run_id__isnull=False)
            ),
        ),
        AddIndexConcurrently(
            "inbox", models.Index(models.F("step_id"), name="qd_inbox_step", condition=Q(step_id__isnull=False))
        ),
    ]
