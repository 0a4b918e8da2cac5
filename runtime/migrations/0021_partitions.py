"""A month's partition can be made though rows of that month lie in the default one: they are moved into it."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0020_queue_depth")]

    operations = [migrations.RunSQL(schema_sql("partitions"), migrations.RunSQL.noop)]
