"""The runtime as a Django app; every table of the engine carries its label."""

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    """Tasks, runs, steps, operations, cost and triggers."""

    name = "runtime"
    label = "runtime"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the system checks; the engine itself registers nothing with itself."""
        from runtime import checks  # noqa: F401
        from runtime.store import arrays  # noqa: F401  (before the first connection copies psycopg's adapters)
