"""The database's half of the law: clock, partitions, guards, roles and row-level security."""

from django.db import migrations

from runtime.machine import law
from runtime.store.lawsql import guards
from runtime.store.sqlfile import schema_sql


def _guards() -> str:
    return guards(
        step_entry=law.STEP_ENTRY,
        step_pairs=law.guard_pairs(law.STEP),
        run_pairs=law.guard_pairs(law.RUN),
        operation_pairs=law.guard_pairs(law.OPERATION),
        rows=law.rows(),
    )


class Migration(migrations.Migration):
    dependencies = [
        ("runtime", "0001_initial"),
        ("guardian", "0003_remove_groupobjectpermission_guardian_gr_content_ae6aec_idx_and_more"),
        ("sessions", "0001_initial"),
        ("django_q", "0018_task_success_index"),
    ]

    operations = [
        migrations.RunSQL(schema_sql("functions"), migrations.RunSQL.noop),
        migrations.RunSQL(_guards(), migrations.RunSQL.noop),
        migrations.RunSQL(schema_sql("walls"), migrations.RunSQL.noop),
    ]
