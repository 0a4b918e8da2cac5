"""What worker sessions hold, to compare with what their workers know; statistics of young tables."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("runtime", "0010_cancel_by_index")]

    operations = [migrations.RunSQL(schema_sql(name), migrations.RunSQL.noop) for name in ("held", "statistics")]
