"""A member's user name stays theirs: what the record says of a name never comes to mean somebody else."""

from django.conf import settings
from django.db import migrations

from runtime.store.sqlfile import schema_sql

UNDO = "DROP TRIGGER qd_keep_username ON auth_user; DROP FUNCTION qd_keep_username();"


class Migration(migrations.Migration):
    dependencies = [("runtime", "0031_preferred"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [migrations.RunSQL(schema_sql("usernames"), UNDO)]
