"""The database's half of the law of approvals: guard, row-level security, grants."""

from django.db import migrations

from approvals import law
from runtime.store.lawsql import approval_guard


class Migration(migrations.Migration):
    dependencies = [("approvals", "0001_initial"), ("runtime", "0003_stops_and_alerts")]

    operations = [migrations.RunSQL(approval_guard(law.pairs()), migrations.RunSQL.noop)]
