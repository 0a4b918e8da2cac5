"""A run keeps the run that submitted its task and its budget; children are found by their parent (C1.2)."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0026_pool_queues")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="parent_id",
            field=models.UUIDField(help_text="The run that submitted its task.", null=True),
        ),
        migrations.AddField(
            model_name="run",
            name="budget",
            field=models.JSONField(help_text="What it may use: calls, effects; null for no bound.", null=True),
        ),
        AddIndexConcurrently(
            "run",
            models.Index(F("parent_id"), F("id").desc(), name="qd_run_children", condition=Q(parent_id__isnull=False)),
        ),
    ]
