"""Refuses migrations that would hold a lock on a big table while they work (issue: upgrades under load).

A migration runs while workers write. What takes an exclusive lock for as long as the table is large, or takes away
what running code of the old version still uses, is refused with the way that does the same without.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres import operations as postgres
from django.db import connections, migrations, models
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.functions import Now

from runtime.store.partitions import PARTITIONED

# Tables that grow with the work done; partitioned ones cannot be indexed concurrently as a whole.
BIG_TABLES = {
    *PARTITIONED,
    "qd_approval",
    "qd_approval_action",
    "qd_approval_decision",
    "qd_approval_note",
    "qd_artifact",
    "qd_audit_entry",
    "qd_case",
    "qd_citation",
    "qd_evidence",
    "qd_inbox",
    "qd_operation",
    "qd_outbox",
    "qd_outcome",
    "qd_run",
    "qd_step",
    "qd_task",
}
# These create the tables, or stood before there was a release: nothing is in them yet.
FOUNDING = frozenset(
    {
        ("runtime", "0001_initial"),
        ("runtime", "0002_law_and_walls"),
        ("approvals", "0001_initial"),
        ("approvals", "0003_people"),
        ("repair", "0001_initial"),
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One refusal: the rule's name, the table, and what to do instead."""

    rule: str
    table: str
    advice: str

    def __str__(self) -> str:
        return f"{self.rule} on {self.table}: {self.advice}"


CONCURRENTLY = "use AddIndexConcurrently in a migration with atomic = False"
BY_PARTITION = "create the index ON ONLY the parent, concurrently on each partition, then attach them"
TWO_RELEASES = "stop using it in one release, take it away in the next with SeparateDatabaseAndState"
NOT_VALID = "use AddConstraintNotValid, then ValidateConstraint in a later migration"
WITH_DEFAULT = "make it null or give it a constant db_default, so that neither old code nor the table is disturbed"
BY_ROW = "a default that differs by row rewrites the table: " + WITH_DEFAULT
BY_HAND = "add it NOT VALID and validate it in a later migration, or USING INDEX"
NEW_COLUMN = "add a new column, fill it in batches, and switch over in the next release"


def lint(migration: migrations.Migration, state: ProjectState) -> list[Finding]:
    """Return what is refused in ``migration``; ``state`` is the project before it and is left as it was."""
    state = state.clone()
    found: list[Finding] = []
    for operation in migration.operations:
        found += _lint_operation(operation, migration, state)
        operation.state_forwards(migration.app_label, state)
    return found


def _lint_operation(operation: Operation, migration: migrations.Migration, state: ProjectState) -> Iterator[Finding]:
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        inner = state.clone()
        for step in operation.database_operations:
            yield from _lint_operation(step, migration, inner)
            step.state_forwards(migration.app_label, inner)
    elif isinstance(operation, migrations.RunSQL):
        yield from lint_sql(_sql_text(operation.sql), atomic=migration.atomic)
    elif isinstance(operation, migrations.RunPython):
        for code in (operation.code, operation.reverse_code):
            if code not in (None, migrations.RunPython.noop):
                yield from _lint_python(code, state)
    else:
        model = getattr(operation, "model_name", None) or getattr(operation, "name", None)
        table = _table(migration.app_label, model, state)
        if table in BIG_TABLES:
            yield from _lint_on_table(operation, table, migration, state)


def _lint_on_table(
    operation: Operation, table: str, migration: migrations.Migration, state: ProjectState
) -> Iterator[Finding]:
    rule = type(operation).__name__
    if isinstance(operation, (postgres.AddIndexConcurrently, postgres.RemoveIndexConcurrently)):
        if table in PARTITIONED and isinstance(operation, postgres.AddIndexConcurrently):
            yield Finding(rule, table, BY_PARTITION)
        elif migration.atomic:
            yield Finding(rule, table, "set atomic = False on the migration")
    elif isinstance(operation, migrations.AddIndex):
        yield Finding(rule, table, BY_PARTITION if table in PARTITIONED else CONCURRENTLY)
    elif isinstance(operation, postgres.AddConstraintNotValid):
        return
    elif isinstance(operation, migrations.AddConstraint):
        unique = isinstance(operation.constraint, models.UniqueConstraint)
        yield Finding(rule, table, "build a unique index concurrently instead" if unique else NOT_VALID)
    elif isinstance(operation, migrations.AddField):
        yield from _lint_new_field(operation.field, table)
    elif isinstance(operation, migrations.AlterField):
        before = state.models[migration.app_label, operation.model_name_lower].get_field(operation.name)
        if _changes_the_column(before, operation.field):
            yield Finding(rule, table, NEW_COLUMN)
    elif isinstance(operation, (migrations.RemoveField, migrations.RenameField, migrations.DeleteModel)):
        yield Finding(rule, table, TWO_RELEASES)
    elif isinstance(operation, (migrations.RenameModel, migrations.AlterModelTable)):
        yield Finding(rule, table, "a table keeps its name: set db_table to it")
    elif isinstance(operation, migrations.AlterUniqueTogether):
        yield Finding(rule, table, "build a unique index concurrently instead")


def _lint_new_field(field: models.Field[Any, Any], table: str) -> Iterator[Finding]:
    if isinstance(field, models.GeneratedField):
        yield Finding("AddField", table, "a generated column rewrites the table: " + NEW_COLUMN)
    elif field.has_db_default() and not _constant(field.db_default):
        yield Finding("AddField", table, BY_ROW)
    elif not field.null and not field.has_db_default() and not field.many_to_many:
        yield Finding("AddField", table, WITH_DEFAULT)
    if field.unique or getattr(field, "db_index", False):
        yield Finding("AddField", table, "it builds an index under lock: db_index=False, then " + CONCURRENTLY)
    if isinstance(field, models.ForeignKey) and getattr(field, "db_constraint", True):
        advice = "its foreign key is checked under lock: db_constraint=False, then " + NOT_VALID
        yield Finding("AddField", table, advice)


def _constant(default: Any) -> bool:
    return not hasattr(default, "resolve_expression") or isinstance(default, (models.Value, Now))


def _changes_the_column(before: models.Field[Any, Any], after: models.Field[Any, Any]) -> bool:
    """Tell whether rows would be looked at or rewritten; help texts and choices are Django's alone.

    That a column may be null from now on is written in the catalog only: no row is looked at.
    """
    connection = connections["owner"]
    for field in (before, after):
        field.set_attributes_from_name(field.name or "field")
    same_place = before.db_parameters(connection) == after.db_parameters(connection)
    same_rules = all(
        getattr(before, name, None) == getattr(after, name, None)
        for name in ("unique", "db_index", "db_default", "db_constraint", "column")
    )
    return not (same_place and same_rules and (after.null or not before.null))


def _table(app_label: str, model: str | None, state: ProjectState) -> str:
    known = state.models.get((app_label, (model or "").lower()))
    return str(known.options.get("db_table", "")) if known else ""


# -- Python that runs once

_GET_MODEL = re.compile(r"\bget_model\(\s*([^)]*)\)")
_LITERALS = re.compile(r"""["'](\w+)(?:["']\s*,\s*["']|\.)(\w+)["']""")
_OPAQUE = "name every model it touches by apps.get_model with literals, in its own body, so that the lint can read it"


def _lint_python(code: Any, state: ProjectState) -> Iterator[Finding]:
    """Yield what is refused in a function of RunPython: it touches no big table, and shows what it touches."""
    try:
        text = inspect.getsource(code)
    except (OSError, TypeError):
        text = ""
    asked = _GET_MODEL.findall(text)
    named = [match for one in asked if (match := _LITERALS.fullmatch(one.strip().rstrip(",")))]
    if not asked or len(named) < len(asked):
        yield Finding("RunPython", "any table", _OPAQUE)
    tables = {_table(match[1], match[2], state) for match in named} | set(re.findall(r"\bqd_\w+", text))
    for (_app, name), model in state.models.items():
        if re.search(rf"\b{name}\s*\.\s*(?:objects|_\w*manager)\b", text, re.IGNORECASE):
            tables.add(str(model.options.get("db_table", "")))
    for table in sorted(tables & BIG_TABLES):
        yield Finding("RunPython", table, "fill in batches, not in a migration")


# -- SQL written by hand

_NAME = r'(?:(?:ONLY|IF\s+EXISTS)\s+)*(?:public\.)?"?(?P<table>' + "|".join(sorted(BIG_TABLES)) + r')"?\b'
_SQL_RULES: tuple[tuple[str, str, str], ...] = (
    ("CREATE INDEX", rf"CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?!CONCURRENTLY)(?:[^;]*?)\bON\s+(?!ONLY){_NAME}", CONCURRENTLY),
    ("ALTER TYPE", rf"ALTER\s+TABLE\s+{_NAME}[^;]*\bALTER\s+(?:COLUMN\s+)?\S+\s+(?:SET\s+DATA\s+)?TYPE\b", NEW_COLUMN),
    (
        "SET NOT NULL",
        rf"ALTER\s+TABLE\s+{_NAME}[^;]*\bSET\s+NOT\s+NULL\b",
        "add a CHECK (… IS NOT NULL) NOT VALID and validate it in a later migration",
    ),
    ("DROP COLUMN", rf"ALTER\s+TABLE\s+{_NAME}[^;]*\bDROP\s+COLUMN\b", TWO_RELEASES),
    ("RENAME", rf"ALTER\s+TABLE\s+{_NAME}[^;]*\bRENAME\b", TWO_RELEASES),
    ("DROP TABLE", rf"DROP\s+TABLE\s+{_NAME}", TWO_RELEASES),
    ("LOCK TABLE", rf"LOCK\s+(?:TABLE\s+)?{_NAME}", "a migration takes no locks by hand"),
    ("VACUUM FULL", rf"VACUUM\s*(?:\(\s*FULL[^)]*\)|FULL)[^;]*\b{_NAME}", "let autovacuum work"),
    ("CLUSTER", rf"CLUSTER\s+{_NAME}", "it rewrites the table under lock"),
    ("REINDEX", rf"REINDEX\s+(?:TABLE|INDEX)\s+(?!CONCURRENTLY){_NAME}", "use REINDEX … CONCURRENTLY"),
    ("UPDATE", rf"\bUPDATE\s+{_NAME}\s+(?:AS\s+)?\w*\s*SET\b", "fill in batches, not in a migration"),
    ("DELETE", rf"\bDELETE\s+FROM\s+{_NAME}", "delete in batches, not in a migration"),
)
_ALTER = re.compile(rf"ALTER\s+TABLE\s+{_NAME}(?P<actions>[^;]*)", re.IGNORECASE | re.DOTALL)
_CONSTRAINT = re.compile(r"\s*ADD\s+(?:CONSTRAINT|CHECK|UNIQUE|EXCLUDE|(?:FOREIGN|PRIMARY)\s+KEY)\b", re.IGNORECASE)
_COLUMN = re.compile(r"\s*ADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_DEFAULT = re.compile(
    r"\bDEFAULT\b(?P<value>.*?)(?=\b(?:NOT|NULL|CHECK|REFERENCES|UNIQUE|PRIMARY|CONSTRAINT|COLLATE|GENERATED)\b|$)",
    re.IGNORECASE | re.DOTALL,
)
# What PostgreSQL works out once for the whole table; any other function may answer each row anew.
_ONE_VALUE = {"now", "transaction_timestamp", "statement_timestamp"}
_COLUMN_RULES: tuple[tuple[str, str, str], ...] = (
    ("ADD COLUMN UNIQUE", r"\bUNIQUE\b|\bPRIMARY\s+KEY\b", "it builds an index under lock: " + CONCURRENTLY),
    ("ADD COLUMN REFERENCES", r"\bREFERENCES\b", "its foreign key is checked under lock: " + NOT_VALID),
    ("ADD COLUMN CHECK", r"\bCHECK\b", "it is checked under lock: " + NOT_VALID),
    ("ADD COLUMN GENERATED", r"\bGENERATED\b|\b(?:small|big)?serial\b", "it rewrites the table: " + NEW_COLUMN),
)
_BODY = re.compile(
    r"(?P<do>\bDO\s+(?:LANGUAGE\s+\w+\s+)?)?(?P<tag>\$\w*\$)(?P<body>.*?)(?P=tag)", re.DOTALL | re.IGNORECASE
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def lint_sql(text: str, *, atomic: bool = True) -> Iterator[Finding]:
    """Yield what is refused in hand-written SQL; a DO block is read, a function's body is not (it runs later)."""
    text = _BODY.sub(lambda match: match["body"] if match["do"] else "''", _COMMENT.sub(" ", text))
    for statement in text.split(";"):
        for rule, pattern, advice in _SQL_RULES:
            if match := re.search(pattern, statement, re.IGNORECASE):
                yield Finding(rule, match["table"].lower(), advice)
        for match in _ALTER.finditer(statement):
            for action in _actions(match["actions"]):
                yield from _lint_addition(action, match["table"].lower())
        if atomic and re.search(r"\bCONCURRENTLY\b", statement, re.IGNORECASE):
            yield Finding("CONCURRENTLY", "any table", "set atomic = False on the migration")


def _actions(text: str) -> Iterator[str]:
    """Yield the actions of an ALTER TABLE: its parts between commas outside of brackets; texts in it become empty."""
    text = re.sub(r"'(?:[^']|'')*'", "''", text)
    depth = start = 0
    for place, char in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def _lint_addition(action: str, table: str) -> Iterator[Finding]:
    """Yield what is refused in one action that adds a constraint or a column."""
    if _CONSTRAINT.match(action):
        if not re.search(r"\bNOT\s+VALID\b|\bUSING\s+INDEX\b", action, re.IGNORECASE):
            yield Finding("ADD CONSTRAINT", table, BY_HAND)
        return
    column = _COLUMN.match(action)
    if column is None:
        return
    rest = column["rest"]
    default = _DEFAULT.search(rest)
    if default is None and re.search(r"\bNOT\s+NULL\b", rest, re.IGNORECASE):
        yield Finding("ADD COLUMN NOT NULL", table, WITH_DEFAULT)
    # A name before a bracket is a function, unless a type follows a cast.
    called = re.findall(r"(?<![:\w])(\w+)\s*\(", default["value"]) if default is not None else []
    if {name.lower() for name in called} - _ONE_VALUE:
        yield Finding("ADD COLUMN DEFAULT", table, BY_ROW)
    for rule, pattern, advice in _COLUMN_RULES:
        if re.search(pattern, rest, re.IGNORECASE):
            yield Finding(rule, table, advice)


def _sql_text(sql: Any) -> str:
    if isinstance(sql, str):
        return sql
    parts: Iterable[Any] = sql
    return ";\n".join(part if isinstance(part, str) else str(part[0]) for part in parts)


def lint_project(app_labels: Iterable[str]) -> dict[str, list[Finding]]:
    """Return refusals by ``app.name`` for every migration of these apps but the founding ones. Needs no database."""
    from django.db.migrations.loader import MigrationLoader

    loader = MigrationLoader(None, ignore_no_migrations=True)
    wanted = set(app_labels)
    found: dict[str, list[Finding]] = {}
    for key in sorted(loader.graph.nodes):
        if key[0] not in wanted or key in FOUNDING:
            continue
        refusals = lint(loader.graph.nodes[key], loader.project_state(key, at_end=False))
        if refusals:
            found[".".join(key)] = refusals
    return found
