"""External events: what a message in the inbox is for, and who gets it."""

from django.db import migrations, models

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0011_held")]

    operations = [
        migrations.AddField("inbox", "run_id", models.UUIDField(null=True)),
        migrations.AddField("inbox", "step_id", models.UUIDField(help_text="The step it was given to.", null=True)),
        migrations.AddField("inbox", "name", models.CharField(max_length=200, null=True)),
        migrations.AddField("inbox", "correlation_id", models.CharField(max_length=2000, null=True)),
        migrations.AlterField(
            "inbox",
            "handled_at",
            models.DateTimeField(help_text="null: kept for a step that does not wait for it yet", null=True),
        ),
        migrations.RunSQL(schema_sql("signals"), migrations.RunSQL.noop),
    ]
