"""The language a person chose: mails to them are written in it."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0032_usernames"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Preference",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="preference",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("language", models.CharField(max_length=20)),
                ("set_at", models.DateTimeField()),
            ],
            options={"db_table": "qd_preference"},
        ),
        migrations.RunSQL(schema_sql("preferences"), migrations.RunSQL.noop),
    ]
