"""The depth of the queue is counted up to a bound; the function without one stays for code that still calls it."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0019_turns")]

    operations = [migrations.RunSQL(schema_sql("queue_depth"), migrations.RunSQL.noop)]
