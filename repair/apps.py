"""The app `repair`: plugs into the runtime's seams when Django is ready."""

from django.apps import AppConfig


class RepairConfig(AppConfig):
    """Cases: what was lost, unknown or broken, and how it is mended."""

    name = "repair"
    label = "repair"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect gates, subscribers, subjects and verbs."""
        from repair import wiring

        wiring.connect()
