"""Who may write down failed sign-ins: the tables are those of django-axes."""

from django.db import migrations

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0006_stop_ends"),
        ("axes", "0010_accessattemptexpiration"),
    ]

    operations = [
        migrations.RunSQL(schema_sql("sign_ins"), reverse_sql=migrations.RunSQL.noop),
    ]
