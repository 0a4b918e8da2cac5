"""What was asked about an operation, how often and when, and which of them are due."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models

from runtime.store.sqlfile import schema_sql

UNSETTLED = (
    "intended",
    "sent",
    "unknown",
    "needs_human",
    "partially_applied",
    "compensating",
    "compensation_failed",
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("runtime", "0014_relay")]

    operations = [
        migrations.AddField("operation", "queries", models.PositiveIntegerField(null=True)),
        migrations.AddField("operation", "queried_at", models.DateTimeField(null=True)),
        migrations.AddField("operation", "finding", models.CharField(max_length=20, null=True)),
        AddIndexConcurrently(
            "operation",
            models.Index(
                models.F("next_query_at"),
                name="qd_operation_due",
                condition=models.Q(next_query_at__isnull=False),
            ),
        ),
        AddIndexConcurrently(
            "operation",
            models.Index(
                models.F("tenant"),
                models.F("next_query_at"),
                name="qd_operation_unsettled",
                condition=models.Q(status__in=UNSETTLED),
            ),
        ),
        RemoveIndexConcurrently("operation", "qd_operation_open"),
        migrations.RunSQL(schema_sql("operation_queries"), migrations.RunSQL.noop),
    ]
