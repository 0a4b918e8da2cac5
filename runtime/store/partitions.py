"""Tables partitioned by ranges of the UUIDv7 run_id, one partition a month (engine.md 11)."""

from __future__ import annotations

from django.db.migrations.operations import CreateModel

PARTITIONED = ("qd_event", "qd_attempt", "qd_checkpoint")


class CreatePartitioned(CreateModel):
    """CreateModel whose table is ``PARTITION BY RANGE (run_id)``; the primary key must contain run_id."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):  # type: ignore[no-untyped-def]
        plain = schema_editor.sql_create_table
        schema_editor.sql_create_table = plain + " PARTITION BY RANGE (run_id)"
        try:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        finally:
            schema_editor.sql_create_table = plain
