"""What was decided, in the order of its decisions, of one risk or all; built while people decide."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models
from django.db.models import Case, F, Q, When

OVER_AT = Case(
    When(decided_at__isnull=False, then=F("decided_at")),
    When(closed_at__isnull=False, then=F("closed_at")),
    default=F("created_at"),
)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("approvals", "0010_groups")]

    operations = [
        AddIndexConcurrently(
            "request",
            models.Index(
                F("tenant"),
                OVER_AT.desc(),
                F("id").desc(),
                name="qd_approval_over",
                condition=Q(("state", "pending"), _negated=True),
            ),
        ),
        AddIndexConcurrently(
            "request",
            models.Index(
                F("tenant"),
                F("risk"),
                OVER_AT.desc(),
                F("id").desc(),
                name="qd_approval_over_by_risk",
                condition=Q(("state", "pending"), _negated=True),
            ),
        ),
        # It led by when a request was asked; the old version's lists have the index of all requests until they end.
        RemoveIndexConcurrently("request", "qd_approval_decided"),
    ]
