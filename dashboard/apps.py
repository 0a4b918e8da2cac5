"""The top floor: pages, and the configuration of the whole."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """The operator console."""

    name = "dashboard"
    label = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks; listen to failed sign-ins; tell the engine's sentences in people's languages."""
        from dashboard.config import checks
        from dashboard.pages import sign_in_limits
        from dashboard.presenters.told import told
        from runtime.kernel.words import register_words

        assert checks
        register_words(told)
        sign_in_limits.connect()
