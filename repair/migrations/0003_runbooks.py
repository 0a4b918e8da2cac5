"""Runbooks: Markdown per tool and error class, one row a version; behind the tenant's wall and never changed."""

import django.db.models.deletion
from django.db import migrations, models

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("repair", "0002_walls_and_guard"), ("runtime", "0018_parked")]

    operations = [
        migrations.CreateModel(
            name="Runbook",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tool", models.CharField(blank=True, default="", max_length=220)),
                ("error_class", models.CharField(blank=True, default="", max_length=40)),
                ("version", models.PositiveIntegerField()),
                ("text", models.TextField(blank=True)),
                ("written_by", models.CharField(max_length=200)),
                ("written_at", models.DateTimeField()),
                ("reason", models.TextField(blank=True, default="")),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="runtime.tenant",
                    ),
                ),
            ],
            options={"db_table": "qd_runbook"},
        ),
        migrations.AddConstraint(
            model_name="runbook",
            constraint=models.UniqueConstraint(
                fields=("tenant", "tool", "error_class", "version"), name="qd_runbook_version"
            ),
        ),
        migrations.AddConstraint(
            model_name="runbook",
            constraint=models.CheckConstraint(condition=models.Q(("version__gte", 1)), name="qd_runbook_counted"),
        ),
        migrations.RunSQL(schema_sql("runbooks"), migrations.RunSQL.noop),
    ]
