"""Services ask for actions of their own: grants without a run; what only duties ask is taken from the web's role."""

from django.db import migrations, models

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("approvals", "0007_reach")]

    operations = [
        migrations.AlterField(model_name="action", name="run_id", field=models.UUIDField(null=True)),
        migrations.RunSQL(schema_sql("own_grants"), migrations.RunSQL.noop),
    ]
