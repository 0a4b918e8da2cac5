"""Compensations and their count on the run, and when what a cancel still lets end is killed (C4.5, C5.5)."""

import django.db.models.deletion
from django.db import migrations, models

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0008_run_lists")]

    operations = [
        migrations.CreateModel(
            name="Compensation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("run_id", models.UUIDField()),
                (
                    "step_id",
                    models.UUIDField(
                        help_text="The step that undoes; its check is the step check_step_id.", unique=True
                    ),
                ),
                (
                    "check_step_id",
                    models.UUIDField(help_text="The id its check has, when one is declared.", unique=True),
                ),
                ("tool", models.CharField(max_length=140)),
                (
                    "business_key",
                    models.CharField(
                        help_text="Of the compensating operation, made from the original's.", max_length=500
                    ),
                ),
                ("deadline", models.DateTimeField()),
                ("reason", models.TextField(blank=True, default="")),
                ("requested_by", models.CharField(max_length=200)),
                ("requested_at", models.DateTimeField()),
                (
                    "operation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="compensations",
                        to="runtime.operation",
                    ),
                ),
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
            options={"db_table": "qd_compensation"},
        ),
        migrations.RemoveConstraint(model_name="run", name="qd_run_completed_is_settled"),
        migrations.AddField(
            model_name="run",
            name="cancel_by",
            field=models.DateTimeField(help_text="When what a cancel still lets end by itself is killed.", null=True),
        ),
        migrations.AddField(
            model_name="run", name="n_compensating", field=models.IntegerField(db_default=0, default=0)
        ),
        migrations.RunSQL(schema_sql("compensation"), migrations.RunSQL.noop),
    ]
