"""What the import linter cannot see: file sizes, who writes a status, where SQL lives and that all of it is used, which
way foreign keys point.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from django.apps import apps

from runtime.kernel.conf import Conf
from runtime.queries.invariants import INVARIANTS
from runtime.store.sqlfile import queries

ROOT = Path(__file__).resolve().parents[2]
APPS = ("runtime", "approvals", "repair", "dashboard")
MAX_LINES = 400
# May point to: itself and what lies below it.
BELOW = {
    "runtime": {"runtime", "auth", "contenttypes"},
    "approvals": {"approvals", "runtime", "auth", "contenttypes"},
    "repair": {"repair", "runtime", "auth", "contenttypes"},
    "dashboard": {"dashboard", "approvals", "repair", "runtime", "auth", "contenttypes"},
}
SQL = re.compile(
    r"\bSELECT\b[^.]+\bFROM\s+\w|\bINSERT\s+INTO\s+\w|\bUPDATE\s+\w+\s+SET\b|\bDELETE\s+FROM\s+\w"
    r"|\b(?:ALTER|CREATE|DROP|TRUNCATE|LOCK)\s+TABLE\b|\bCREATE\s+(?:UNIQUE\s+)?INDEX\b"
)
# Queries that machine.apply sends; nobody else writes a status in SQL.
MACHINE_SQL = {"machine.sql", "operations.sql"}
STATUS_UPDATE = re.compile(r"\bUPDATE\s+qd_(?:step|run|operation)\b[^;]*?\bSET\b[^;]*?\bstatus\s*=", re.IGNORECASE)


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_generated(path: Path) -> bool:
    return "migrations" in path.parts


def docstrings(tree: ast.AST) -> set[int]:
    """Return the ids of string nodes that stand alone: docstrings and the like are prose."""
    return {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def test_no_file_is_long():
    files = [*sources(*APPS, "tests"), ROOT / "manage.py", *(ROOT / "runtime").rglob("*.sql")]
    long = {name(path): lines for path in files if not is_generated(path) and (lines := count(path)) > MAX_LINES}
    assert not long


def count(path: Path) -> int:
    return len(path.read_text().splitlines())


def raw_sql(path: Path) -> Iterator[int]:
    tree = ast.parse(path.read_text())
    prose = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if SQL.search(node.value):
                yield node.lineno
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("RawSQL", "raw", "extra") and node.args:
                yield node.lineno


def test_raw_sql_lives_in_the_store():
    found = [
        f"{name(path)}:{line}"
        for path in sources(*APPS)
        if not path.is_relative_to(ROOT / "runtime" / "store") and not is_generated(path)
        for line in raw_sql(path)
    ]
    assert not found


def test_every_named_query_and_every_setting_is_used():
    said = {
        node.value if isinstance(node, ast.Constant) else node.attr
        for path in sources(*APPS)
        if name(path) != "runtime/kernel/conf.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    }
    said |= {query for one in INVARIANTS for query in (*one.queries, *one.walls)}
    assert not set(queries()) - said
    assert not {field.name for field in fields(Conf)} - said


def status_writes(path: Path) -> Iterator[int]:
    """Yield lines that set a status: ``row.status = …``, ``update(status=…)``, ``update_fields=["status"]``."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Attribute) and target.attr == "status" for target in targets):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            fields = words.get("update_fields")
            # A plain name before .update() is a dict; a query set is a chain.
            on_rows = isinstance(node.func.value, ast.Call | ast.Attribute)
            if (node.func.attr == "update" and on_rows and "status" in words) or (
                fields and "'status'" in ast.dump(fields)
            ):
                yield node.lineno


def test_only_the_machine_writes_a_status():
    machine = ROOT / "runtime" / "machine"
    found = [
        f"{name(path)}:{line}"
        for path in sources("runtime")
        if not path.is_relative_to(machine) and not is_generated(path)
        for line in status_writes(path)
    ]
    sql = ROOT / "runtime" / "store" / "sql"
    found += [
        name(path)
        for path in sql.glob("*.sql")
        if path.name not in MACHINE_SQL and STATUS_UPDATE.search(path.read_text())
    ]
    assert not found


def test_tests_run_coroutines_in_a_thread_of_their_own():
    """Playwright keeps a loop running in the main thread of a process that also drives browsers: see ``drive``."""
    alone = {"tests/support/web.py", "tests/support/mcp_http_tool.py"}
    found = {name(path) for path in sources("tests") if re.search(r"\basyncio\.run\(", path.read_text())}
    assert found - {"tests/architecture/test_house.py"} == alone


def test_the_searches_find_what_they_look_for(tmp_path):
    sample = tmp_path / "sample.py"
    sample.write_text(
        '"""SELECT a FROM b"""\nrow.status = 1\nq.filter(a=1).update(status=2)\nx = "DELETE FROM t"\nq.raw(x)\n'
    )
    assert list(status_writes(sample)) == [2, 3]
    assert sorted(raw_sql(sample)) == [4, 5]
    assert STATUS_UPDATE.search("UPDATE qd_step s SET version = 2, status = 'x' WHERE")


@pytest.mark.parametrize("label", APPS)
def test_relations_point_down(label):
    wrong = [
        f"{model.__name__}.{field.name} -> {field.related_model._meta.label}"
        for model in apps.get_app_config(label).get_models()
        for field in model._meta.get_fields()
        if field.is_relation
        and not field.auto_created
        and field.related_model is not None
        and field.related_model._meta.app_label not in BELOW[label]
    ]
    assert not wrong
