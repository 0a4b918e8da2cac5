"""The database's half of the law of cases: guard, row-level security, grants."""

from django.db import migrations

from repair import law
from runtime.store.lawsql import case_guard


class Migration(migrations.Migration):
    dependencies = [("repair", "0001_initial"), ("runtime", "0006_stop_ends")]

    operations = [migrations.RunSQL(case_guard(law.pairs()), migrations.RunSQL.noop)]
