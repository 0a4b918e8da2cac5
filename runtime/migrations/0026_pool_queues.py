"""The depth and the oldest age of the queue by pool, for whoever watches the installation."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0023_duty_walls")]

    operations = [migrations.RunSQL(schema_sql("pool_queues"), migrations.RunSQL.noop)]
