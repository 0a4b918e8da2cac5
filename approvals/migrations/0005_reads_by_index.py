"""The requests for an input of a step, and the proposal after one; built while people decide."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("approvals", "0004_answers")]

    operations = [
        AddIndexConcurrently(
            "request",
            models.Index(models.F("step_id"), models.F("id"), name="qd_approval_input", condition=Q(("kind", "input"))),
        ),
        AddIndexConcurrently(
            "request",
            models.Index(
                models.F("supersedes"), name="qd_approval_supersedes", condition=Q(("supersedes__isnull", False))
            ),
        ),
    ]
