"""An index that is built while workers write can be built again where that failed half way."""

from __future__ import annotations

from importlib import import_module

import psycopg
import pytest
from django.db import connections
from django.db.migrations.state import ProjectState

from tests.support.engine import Engine
from tests.support.specs import tool, workflow

pytestmark = pytest.mark.req("C1.2")


def test_the_migration_is_run_again_where_it_left_an_invalid_index(fresh_db, tenant):
    engine = Engine(tenant)
    for name in ("w1", "w2"):
        engine.submit(workflow(tool("a"), name=name))
    with fresh_db.connect() as owner:

        def index() -> tuple[bool, str] | None:
            return owner.execute(
                "SELECT indisvalid, pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class ON oid = indexrelid "
                "WHERE relname = 'qd_run_children'"
            ).fetchone()

        whole = index()
        assert whole is not None
        assert whole[0] is True
        owner.execute("DROP INDEX qd_run_children")
        with pytest.raises(psycopg.errors.UniqueViolation):
            owner.execute("CREATE UNIQUE INDEX CONCURRENTLY qd_run_children ON qd_run ((1))")
        left = index()
        assert left is not None
        assert left[0] is False
        (operation,) = import_module("runtime.migrations.0029_run_children_index").Migration.operations
        for _time in range(2):
            with connections["owner"].schema_editor(atomic=False) as editor:
                operation.database_forwards("runtime", editor, ProjectState(), ProjectState())
            assert index() == whole
