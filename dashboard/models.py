"""What the console itself remembers of its readers."""

from __future__ import annotations

from django.db import models

from runtime.kernel.ids import uuid7
from runtime.models.tenancy import TenantOwned


class SavedView(TenantOwned):
    """A reader's name for the filters of a list; theirs alone, in one tenant."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user_id = models.IntegerField()
    page = models.CharField(max_length=20, help_text="Which list: runs, inbox.")
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=2000, help_text="The query string, of parameters the list knows.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "qd_saved_view"
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user_id", "page", "name"], name="qd_saved_view_name"),
        ]

    def __str__(self) -> str:
        return self.name
