"""Recorded answers of tool versions, and the signatures that let required ones be called; behind the walls."""

import django.db.models.deletion
from django.db import migrations, models

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0029_run_children_index"),
    ]

    operations = [
        migrations.CreateModel(
            name="ToolSample",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("kind", models.CharField(max_length=20)),
                ("recording", models.BinaryField()),
                ("expected", models.JSONField()),
                ("sha256", models.BinaryField(max_length=32)),
                ("recorded_by", models.CharField(max_length=200)),
                ("recorded_at", models.DateTimeField()),
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
                (
                    "tool_version",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="samples",
                        to="runtime.toolversion",
                    ),
                ),
            ],
            options={
                "db_table": "qd_tool_sample",
                "constraints": [
                    models.UniqueConstraint(fields=("tool_version", "name"), name="qd_tool_sample_name"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "kind__in",
                                (
                                    "normal",
                                    "retryable_error",
                                    "deterministic_error",
                                    "partial",
                                    "malformed",
                                    "oversize",
                                    "late_callback",
                                    "denied",
                                ),
                            )
                        ),
                        name="qd_tool_sample_kind",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ToolSignature",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("contract_sha256", models.BinaryField(max_length=32)),
                ("samples_sha256", models.BinaryField(max_length=32)),
                ("samples", models.PositiveSmallIntegerField()),
                ("reason", models.TextField(blank=True, default="")),
                ("signed_by", models.CharField(max_length=200)),
                ("signed_at", models.DateTimeField()),
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
                (
                    "tool_version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="signatures", to="runtime.toolversion"
                    ),
                ),
            ],
            options={
                "db_table": "qd_tool_signature",
                "indexes": [models.Index(fields=["signed_at"], name="qd_tool_signature_newest")],
            },
        ),
        migrations.RunSQL(schema_sql("tool_samples"), migrations.RunSQL.noop),
    ]
