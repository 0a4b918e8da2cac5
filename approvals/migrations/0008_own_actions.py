"""Services ask for actions of their own: grants without a run, one request a key; and reads of a time by index."""

from django.db import migrations, models

from runtime.store.sqlfile import schema_sql


class Migration(migrations.Migration):
    dependencies = [("approvals", "0007_reach")]

    operations = [
        migrations.AlterField(model_name="action", name="run_id", field=models.UUIDField(null=True)),
        migrations.AddConstraint(
            model_name="request",
            constraint=models.UniqueConstraint(
                condition=models.Q(("subject_kind", "external")),
                fields=("tenant", "subject_id"),
                name="qd_approval_own_once",
            ),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(models.F("tenant"), models.F("created_at"), models.F("id"), name="qd_approval_asked"),
        ),
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                models.F("tenant"),
                models.OrderBy(models.F("id"), descending=True),
                name="qd_approval_decided",
                condition=models.Q(("state", "pending"), _negated=True),
            ),
        ),
        migrations.RunSQL(schema_sql("own_grants"), migrations.RunSQL.noop),
    ]
