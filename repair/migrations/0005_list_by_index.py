"""The lists of one owner's cases and of what was resolved; built while people work."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("repair", "0004_bulk")]

    operations = [
        AddIndexConcurrently(
            "case",
            models.Index(
                F("tenant"),
                F("owner"),
                F("due_at"),
                F("id"),
                name="qd_case_owned",
                condition=Q(("state", "resolved"), _negated=True),
            ),
        ),
        AddIndexConcurrently(
            "case",
            models.Index(F("tenant"), F("id").desc(), name="qd_case_ended", condition=Q(("state", "resolved"))),
        ),
        AddIndexConcurrently(
            "case",
            models.Index(
                F("tenant"), F("resolved_at").desc(), name="qd_case_ended_at", condition=Q(("state", "resolved"))
            ),
        ),
        RemoveIndexConcurrently("case", "qd_case_newest"),
    ]
