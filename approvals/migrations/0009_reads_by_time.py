"""One request a key, what people hold and decided, and reads of a time; built while people decide."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("approvals", "0008_own_actions")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS qd_approval_own_once "
                    "ON qd_approval (tenant_id, subject_id) WHERE subject_kind = 'external'",
                    "DROP INDEX CONCURRENTLY IF EXISTS qd_approval_own_once",
                )
            ],
            state_operations=[
                migrations.AddConstraint(
                    "request",
                    models.UniqueConstraint(
                        fields=("tenant", "subject_id"),
                        condition=Q(("subject_kind", "external")),
                        name="qd_approval_own_once",
                    ),
                )
            ],
        ),
        AddIndexConcurrently(
            "decision", models.Index(F("tenant"), F("user_id"), F("at"), name="qd_approval_decision_by")
        ),
        AddIndexConcurrently(
            "request",
            models.Index(
                F("tenant"),
                F("assignee_id"),
                name="qd_approval_held_by",
                condition=Q(("assignee_id__isnull", False), ("state", "pending")),
            ),
        ),
        AddIndexConcurrently("request", models.Index(F("tenant"), F("created_at"), F("id"), name="qd_approval_asked")),
        AddIndexConcurrently(
            "request",
            models.Index(
                F("tenant"),
                F("id").desc(),
                name="qd_approval_decided",
                condition=Q(("state", "pending"), _negated=True),
            ),
        ),
    ]
