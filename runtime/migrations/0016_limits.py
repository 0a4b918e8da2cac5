"""Limits with tokens, circuit breakers and retry windows; what a step holds and waits for."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


def tenant():
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="+",
        to="runtime.tenant",
    )


def identity():
    return models.UUIDField(default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False)


class Migration(migrations.Migration):
    dependencies = [("runtime", "0015_operation_queries")]

    operations = [
        migrations.CreateModel(
            name="Breaker",
            fields=[
                ("id", identity()),
                ("tool", models.CharField(help_text="name@version", max_length=140)),
                ("error_class", models.CharField(max_length=20)),
                ("state", models.CharField(default="closed", max_length=10)),
                (
                    "failures",
                    models.PositiveIntegerField(default=0, help_text="One after the other, without a success between."),
                ),
                ("last_failure_at", models.DateTimeField()),
                ("opened_at", models.DateTimeField(null=True)),
                (
                    "open_until",
                    models.DateTimeField(help_text="Half open: until when the probe has time.", null=True),
                ),
                (
                    "opens",
                    models.PositiveIntegerField(default=0, help_text="How often in a row it opened; the time doubles."),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                ("tenant", tenant()),
            ],
            options={
                "db_table": "qd_breaker",
                "constraints": [
                    models.UniqueConstraint(fields=["tenant", "tool", "error_class"], name="qd_breaker_once"),
                    models.CheckConstraint(
                        condition=Q(("state__in", ("closed", "open", "half_open"))), name="qd_breaker_state"
                    ),
                    models.CheckConstraint(
                        condition=Q(("state", "closed"), ("open_until__isnull", False), _connector="OR"),
                        name="qd_breaker_open_has_end",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Limit",
            fields=[
                ("id", identity()),
                ("scope", models.CharField(max_length=10)),
                (
                    "name",
                    models.CharField(blank=True, default="", help_text="Of a tool or a workflow.", max_length=200),
                ),
                (
                    "origin",
                    models.CharField(help_text="contract: of the tool; settings: set by a person.", max_length=10),
                ),
                ("most", models.PositiveIntegerField(null=True)),
                ("calls", models.PositiveIntegerField(null=True)),
                ("per_s", models.FloatField(null=True)),
                ("used", models.IntegerField(default=0)),
                ("allowance", models.FloatField(help_text="Calls that might start at refilled_at.", null=True)),
                ("refilled_at", models.DateTimeField(null=True)),
                ("reason", models.TextField(blank=True, default="")),
                ("set_by", models.CharField(max_length=200)),
                ("set_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(null=True)),
                ("tenant", tenant()),
            ],
            options={
                "db_table": "qd_limit",
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(("removed_at__isnull", True)),
                        fields=["tenant", "scope", "name", "origin"],
                        name="qd_limit_once",
                    ),
                    models.CheckConstraint(
                        condition=Q(("scope__in", ("global", "tenant", "workflow", "tool"))), name="qd_limit_scope"
                    ),
                    models.CheckConstraint(
                        condition=(Q(most__isnull=False) | Q(calls__isnull=False))
                        & (Q(calls__isnull=True, per_s__isnull=True) | Q(calls__gte=1, per_s__gt=0)),
                        name="qd_limit_bounds_something",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="RetryWindow",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "tenant_id", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("tenant", tenant()),
                ("key", models.CharField(max_length=160)),
                (
                    "fingerprint",
                    models.BinaryField(help_text="The input that holds this slot now.", max_length=32, null=True),
                ),
                ("ends_at", models.DateTimeField()),
                ("used", models.PositiveIntegerField()),
            ],
            options={"db_table": "qd_retry_window"},
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                ("id", identity()),
                ("data_regions", models.JSONField(null=True)),
                ("scopes", models.JSONField(null=True)),
                ("set_by", models.CharField(max_length=200)),
                ("set_at", models.DateTimeField()),
                ("tenant", tenant()),
            ],
            options={
                "db_table": "qd_policy",
                "constraints": [models.UniqueConstraint(fields=["tenant"], name="qd_policy_one")],
            },
        ),
        migrations.AddField(
            "step",
            "tokens",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.UUIDField(),
                help_text="The limits it holds a token of, while it runs.",
                null=True,
                size=None,
            ),
        ),
        migrations.AddField(
            "step",
            "serial",
            models.UUIDField(help_text="The state it writes: one writer at a time holds it.", null=True),
        ),
        migrations.AddField(
            "step",
            "blocked_on",
            models.UUIDField(help_text="The limit, breaker, run or state a parked step waits for.", null=True),
        ),
        migrations.RunSQL(schema_sql("limits"), migrations.RunSQL.noop),
    ]
