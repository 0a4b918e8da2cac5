"""What a worker's heartbeat shows: its process's use, and how far each call in its hands is."""

from django.db import migrations, models

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0027_run_attributes")]

    operations = [
        migrations.AddField("workersession", "cpu_seconds", models.FloatField(null=True)),
        migrations.AddField("workersession", "rss_bytes", models.BigIntegerField(null=True)),
        migrations.AddField("workersession", "in_hand", models.JSONField(null=True)),
        migrations.RunSQL(schema_sql("in_hand"), migrations.RunSQL.noop),
    ]
