"""The pool that a step's node prefers: until when it waits there, and its ordinary one; built while workers write."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0030_tool_samples")]

    operations = [
        migrations.AddField(
            "step",
            "home_pool",
            models.CharField(help_text="Its ordinary pool, where its node prefers another.", max_length=60, null=True),
        ),
        migrations.AddField(
            "step",
            "prefer_until",
            models.DateTimeField(help_text="Until when it is queued in the pool its node prefers.", null=True),
        ),
        AddIndexConcurrently(
            "step",
            models.Index(
                models.F("pool"),
                models.F("prefer_until"),
                models.F("id"),
                name="qd_step_preferred",
                condition=Q(("prefer_until__isnull", False), ("status", "queued")),
            ),
        ),
        migrations.RunSQL(schema_sql("preferred"), migrations.RunSQL.noop),
    ]
