"""The runtime as a Django app; every table of the engine carries its label."""

from typing import Any

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    """Tasks, runs, steps, operations, cost and triggers."""

    name = "runtime"
    label = "runtime"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the system checks, and what a second person's decision about a forced success resumes."""
        from runtime import checks  # noqa: F401
        from runtime.kernel import seams
        from runtime.store import arrays  # noqa: F401  (before the first connection copies psycopg's adapters)

        seams.register_subject("force", _resume_force)


def _resume_force(**arguments: Any) -> None:
    # Imported when it is first called: every command of ``manage.py`` sets the apps up.
    from runtime.actions.forcing import resume_force

    resume_force(**arguments)
