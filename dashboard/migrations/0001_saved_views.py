"""Saved views of lists: kept with the reader, no longer with the session."""

import django.db.models.deletion
from django.db import migrations, models

import runtime.kernel.ids
from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    initial = True

    dependencies = [("runtime", "0018_parked")]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.UUIDField(default=runtime.kernel.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("user_id", models.IntegerField()),
                ("page", models.CharField(help_text="Which list: runs, inbox.", max_length=20)),
                ("name", models.CharField(max_length=40)),
                (
                    "query",
                    models.CharField(help_text="The query string, of parameters the list knows.", max_length=2000),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
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
                "db_table": "qd_saved_view",
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "user_id", "page", "name"), name="qd_saved_view_name")
                ],
            },
        ),
        migrations.RunSQL(schema_sql("saved_views"), migrations.RunSQL.noop),
    ]
