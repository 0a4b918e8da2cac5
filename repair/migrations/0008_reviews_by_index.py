"""What waits for a second person's review, counted on every page; built while people work."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("repair", "0007_case_chain")]

    operations = [
        AddIndexConcurrently(
            "case",
            models.Index(
                F("tenant"), F("due_at"), F("id"), name="qd_case_reviewing", condition=Q(("state", "reviewing"))
            ),
        ),
        AddIndexConcurrently(
            "bulkrepair",
            models.Index(F("tenant"), F("id"), name="qd_case_bulk_reviewing", condition=Q(("state", "reviewing"))),
        ),
    ]
