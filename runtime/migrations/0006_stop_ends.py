"""A look at when the last emergency stop ended."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0005_failed_runs_index")]

    operations = [migrations.RunSQL(schema_sql("stop_ends"), migrations.RunSQL.noop)]
