"""Functions over every tenant that only duties call are taken from the web's role; it never called them."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0022_limit_version")]

    operations = [migrations.RunSQL(schema_sql("duty_walls"), migrations.RunSQL.noop)]
