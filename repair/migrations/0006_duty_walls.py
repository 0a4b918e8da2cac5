"""Functions over every tenant's cases that only duties call are taken from the web's role; it never called them."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("repair", "0005_list_by_index")]

    operations = [migrations.RunSQL(schema_sql("case_duties"), migrations.RunSQL.noop)]
