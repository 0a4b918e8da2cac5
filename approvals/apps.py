"""The app `approvals`: plugs into the runtime's seams when Django is ready."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """Requests for a person's decision, policy rules and the gate the runtime asks."""

    name = "approvals"
    label = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect gates, subscribers, subjects and verbs."""
        from approvals import wiring

        wiring.connect()
