"""The chain that a tenant's overdue cases go up: one row a version, behind the tenant's wall and never changed."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("repair", "0006_duty_walls")]

    operations = [
        migrations.CreateModel(
            name="Chain",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                (
                    "told",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), size=None),
                ),
                (
                    "after_minutes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None),
                ),
                ("set_by", models.CharField(max_length=200)),
                ("set_at", models.DateTimeField()),
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
            options={"db_table": "qd_case_chain"},
        ),
        migrations.AddConstraint(
            model_name="chain",
            constraint=models.UniqueConstraint(fields=("tenant", "version"), name="qd_case_chain_version"),
        ),
        migrations.AddConstraint(
            model_name="chain",
            constraint=models.CheckConstraint(condition=models.Q(("version__gte", 1)), name="qd_case_chain_counted"),
        ),
        migrations.AlterField(
            model_name="case",
            name="escalated_to",
            field=models.CharField(blank=True, default="", help_text="Whom the chain told last.", max_length=40),
        ),
        migrations.RunSQL(schema_sql("case_chain"), migrations.RunSQL.noop),
    ]
