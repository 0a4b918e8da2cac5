"""Messages that cannot be sent have a quarantine; which alert rules there are is the code's business."""

import django.db.models.deletion
from django.db import migrations, models

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0013_signal_indexes"),
    ]

    operations = [
        migrations.CreateModel(
            name="Quarantined",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("outbox_id", models.UUIDField()),
                ("event_id", models.UUIDField()),
                ("topic", models.CharField(max_length=200)),
                ("schema_version", models.PositiveSmallIntegerField()),
                ("payload", models.JSONField()),
                ("reason", models.TextField()),
                ("attempts", models.PositiveIntegerField()),
                ("created_at", models.DateTimeField(help_text="When the message was written.")),
                ("quarantined_at", models.DateTimeField()),
                ("resolution", models.CharField(max_length=10, null=True)),
                ("closed_at", models.DateTimeField(null=True)),
                ("closed_by", models.CharField(max_length=200, null=True)),
                ("close_reason", models.TextField(blank=True, default="")),
            ],
            options={
                "db_table": "qd_quarantine",
            },
        ),
        migrations.RemoveConstraint(
            model_name="alert",
            name="qd_alert_rule",
        ),
        migrations.AddField(
            model_name="outbox",
            name="schema_version",
            field=models.PositiveSmallIntegerField(db_default=1, help_text="Of the payload."),
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.CheckConstraint(
                condition=models.Q(("rule__regex", "^[a-z_]{3,40}$")), name="qd_alert_rule"
            ),
        ),
        migrations.AddField(
            model_name="quarantined",
            name="tenant",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="runtime.tenant",
            ),
        ),
        migrations.AddIndex(
            model_name="quarantined",
            index=models.Index(
                models.F("tenant"),
                models.OrderBy(models.F("quarantined_at"), descending=True),
                name="qd_quarantine_newest",
            ),
        ),
        migrations.AddConstraint(
            model_name="quarantined",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at__isnull", True)),
                fields=("tenant", "event_id"),
                name="qd_quarantine_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="quarantined",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("closed_at__isnull", True), ("closed_by__isnull", True), ("resolution__isnull", True)),
                    models.Q(
                        ("closed_at__isnull", False),
                        ("closed_by__isnull", False),
                        ("resolution__in", ["replayed", "discarded"]),
                    ),
                    _connector="OR",
                ),
                name="qd_quarantine_closed_by_somebody",
            ),
        ),
        migrations.RunSQL(schema_sql("relay"), migrations.RunSQL.noop),
    ]
