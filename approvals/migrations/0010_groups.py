"""Groups that decide, and who is whose manager."""

import django.db.models.deletion
from django.db import migrations, models

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0009_reads_by_time"),
        ("runtime", "0026_pool_queues"),
    ]

    operations = [
        migrations.CreateModel(
            name="Group",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=60)),
                ("created_by", models.CharField(max_length=200)),
                ("created_at", models.DateTimeField()),
                ("removed_at", models.DateTimeField(null=True)),
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
            options={
                "db_table": "qd_approval_group",
            },
        ),
        migrations.CreateModel(
            name="GroupMember",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("user_id", models.IntegerField()),
                ("added_by", models.CharField(max_length=200)),
                ("added_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="members",
                        to="approvals.group",
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
            options={
                "db_table": "qd_approval_group_member",
            },
        ),
        migrations.CreateModel(
            name="Manager",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("user_id", models.IntegerField()),
                ("manager_id", models.IntegerField(null=True)),
                ("set_by", models.CharField(max_length=200)),
                ("set_at", models.DateTimeField()),
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
            options={
                "db_table": "qd_approval_manager",
            },
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(
                condition=models.Q(("removed_at__isnull", True)),
                fields=("tenant", "name"),
                name="qd_approval_group_once",
            ),
        ),
        migrations.AddIndex(
            model_name="groupmember",
            index=models.Index(
                models.F("tenant"),
                models.F("user_id"),
                condition=models.Q(("ended_at__isnull", True)),
                name="qd_approval_groups_of",
            ),
        ),
        migrations.AddConstraint(
            model_name="groupmember",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("group", "user_id"),
                name="qd_approval_group_member_once",
            ),
        ),
        migrations.AddIndex(
            model_name="manager",
            index=models.Index(models.F("tenant"), models.F("manager_id"), name="qd_approval_managed_by"),
        ),
        migrations.AddConstraint(
            model_name="manager",
            constraint=models.UniqueConstraint(fields=("tenant", "user_id"), name="qd_approval_manager_once"),
        ),
        migrations.AddConstraint(
            model_name="manager",
            constraint=models.CheckConstraint(
                condition=models.Q(("user_id", models.F("manager_id")), _negated=True),
                name="qd_approval_manager_is_another",
            ),
        ),
        migrations.RunSQL(schema_sql("approval_groups"), migrations.RunSQL.noop),
    ]
