"""A run keeps the run that submitted its task and its budget (C1.2)."""

from django.db import migrations, models


class Migration(migrations.Migration):
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
    ]
