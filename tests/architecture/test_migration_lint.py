"""The migration lint refuses one example of each kind, lets the better form pass, and finds our migrations fit."""

from __future__ import annotations

import pytest
from django.contrib.postgres.functions import RandomUUID
from django.contrib.postgres.operations import AddConstraintNotValid, AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.migrations.state import ModelState, ProjectState
from django.db.models.functions import Now

from runtime.store.migration_lint import lint, lint_project


def state() -> ProjectState:
    """A project with a big table, a partitioned one and a small one."""
    project = ProjectState()
    for name, table in (("Step", "qd_step"), ("Event", "qd_event"), ("Verifier", "qd_verifier")):
        fields = [
            ("id", models.BigAutoField(primary_key=True)),
            ("node", models.CharField(max_length=200)),
            ("label", models.CharField(max_length=200, null=True)),
        ]
        project.add_model(ModelState("runtime", name, fields, {"db_table": table}))
    return project


def found(*operations: object, atomic: bool = True) -> list[str]:
    migration = migrations.Migration("0099_example", "runtime")
    migration.operations = list(operations)
    migration.atomic = atomic
    return [f"{finding.rule} {finding.table}" for finding in lint(migration, state())]


def index() -> models.Index:
    return models.Index(fields=["node"], name="by_node")


def add(field: models.Field) -> migrations.AddField:
    return migrations.AddField("step", "extra", field)


def fill_steps(apps, editor):
    apps.get_model("runtime", "Step").objects.update(node="")


def fill_by_one_name(apps, editor):
    model = apps.get_model("runtime.Step")
    model.objects.update(node="")


def fill_by_sql(apps, editor):
    apps.get_model("runtime", "Verifier")
    editor.execute("UPDATE qd_step SET node = ''")


def fill_somewhere(apps, editor):
    fill_steps(apps, editor)


def fill_by_a_variable(apps, editor, name="Step"):
    apps.get_model("runtime", name).objects.update(node="")


def fill_verifiers(apps, editor):
    for verifier in apps.get_model("runtime", "Verifier").objects.all():
        verifier.save()


REFUSED = {
    "index": (migrations.AddIndex("step", index()), "AddIndex qd_step"),
    "concurrent index in a transaction": (AddIndexConcurrently("step", index()), "AddIndexConcurrently qd_step"),
    "check": (
        migrations.AddConstraint("step", models.CheckConstraint(condition=models.Q(node="a"), name="c")),
        "AddConstraint qd_step",
    ),
    "unique": (
        migrations.AddConstraint("step", models.UniqueConstraint(fields=["node"], name="u")),
        "AddConstraint qd_step",
    ),
    "unique together": (migrations.AlterUniqueTogether("step", {("id", "node")}), "AlterUniqueTogether qd_step"),
    "type": (migrations.AlterField("step", "node", models.TextField()), "AlterField qd_step"),
    "longer": (migrations.AlterField("step", "node", models.CharField(max_length=300)), "AlterField qd_step"),
    "no longer null": (migrations.AlterField("step", "label", models.CharField(max_length=200)), "AlterField qd_step"),
    "new column that must be filled": (add(models.IntegerField(default=1)), "AddField qd_step"),
    "new column with a default by row": (add(models.UUIDField(db_default=RandomUUID())), "AddField qd_step"),
    "new column with an index": (add(models.IntegerField(null=True, db_index=True)), "AddField qd_step"),
    "new foreign key": (
        add(models.ForeignKey("runtime.Verifier", models.PROTECT, null=True, db_index=False)),
        "AddField qd_step",
    ),
    "generated column": (
        add(models.GeneratedField(expression=models.F("node"), output_field=models.TextField(), db_persist=True)),
        "AddField qd_step",
    ),
    "column away": (migrations.RemoveField("step", "node"), "RemoveField qd_step"),
    "column renamed": (migrations.RenameField("step", "node", "knot"), "RenameField qd_step"),
    "table away": (migrations.DeleteModel("Step"), "DeleteModel qd_step"),
    "table renamed": (migrations.AlterModelTable("step", "qd_steps"), "AlterModelTable qd_step"),
    "python on a big table": (migrations.RunPython(fill_steps), "RunPython qd_step"),
    "python on a big table by its dotted name": (migrations.RunPython(fill_by_one_name), "RunPython qd_step"),
    "python on the way back": (migrations.RunPython(fill_verifiers, fill_steps), "RunPython qd_step"),
    "sql inside python": (migrations.RunPython(fill_by_sql), "RunPython qd_step"),
    "python that hides what it touches": (migrations.RunPython(fill_somewhere), "RunPython any table"),
    "python whose model is worked out": (migrations.RunPython(fill_by_a_variable), "RunPython any table"),
    "python that nobody can read": (migrations.RunPython(exec), "RunPython any table"),
    "hidden in database_operations": (
        migrations.SeparateDatabaseAndState(database_operations=[migrations.AddIndex("step", index())]),
        "AddIndex qd_step",
    ),
}

REFUSED_SQL = {
    "CREATE INDEX i ON qd_step (node)": "CREATE INDEX qd_step",
    'create unique index if not exists i on public."qd_step" (node)': "CREATE INDEX qd_step",
    "ALTER TABLE qd_run ALTER COLUMN reason TYPE text": "ALTER TYPE qd_run",
    "ALTER TABLE ONLY qd_run ALTER reason SET DATA TYPE text": "ALTER TYPE qd_run",
    "ALTER TABLE qd_operation ALTER COLUMN error SET NOT NULL": "SET NOT NULL qd_operation",
    "ALTER TABLE qd_event ADD CONSTRAINT c CHECK (seq > 0)": "ADD CONSTRAINT qd_event",
    "ALTER TABLE qd_step ADD CHECK (version > 0)": "ADD CONSTRAINT qd_step",
    "alter table if exists only qd_step add unique (node)": "ADD CONSTRAINT qd_step",
    "ALTER TABLE qd_step ADD FOREIGN KEY (run_id) REFERENCES qd_run (id)": "ADD CONSTRAINT qd_step",
    "ALTER TABLE qd_step ADD PRIMARY KEY (id)": "ADD CONSTRAINT qd_step",
    "ALTER TABLE qd_step ADD CONSTRAINT a CHECK (version > 0) NOT VALID, ADD CHECK (seq > 0)": "ADD CONSTRAINT qd_step",
    "ALTER TABLE qd_attempt ADD COLUMN n int NOT NULL": "ADD COLUMN NOT NULL qd_attempt",
    "ALTER TABLE qd_attempt ADD n int NOT NULL": "ADD COLUMN NOT NULL qd_attempt",
    "ALTER TABLE qd_step ADD COLUMN a int DEFAULT 0, ADD COLUMN b int NOT NULL": "ADD COLUMN NOT NULL qd_step",
    "ALTER TABLE qd_step ADD COLUMN key uuid DEFAULT gen_random_uuid()": "ADD COLUMN DEFAULT qd_step",
    "ALTER TABLE qd_step ADD COLUMN IF NOT EXISTS at timestamptz NOT NULL DEFAULT clock_timestamp()": (
        "ADD COLUMN DEFAULT qd_step"
    ),
    "ALTER TABLE qd_step ADD COLUMN n bigint DEFAULT nextval('s'::regclass) NOT NULL": "ADD COLUMN DEFAULT qd_step",
    "ALTER TABLE qd_step ADD COLUMN n bigserial": "ADD COLUMN GENERATED qd_step",
    "ALTER TABLE qd_step ADD COLUMN n int GENERATED ALWAYS AS (version + 1) STORED": "ADD COLUMN GENERATED qd_step",
    "ALTER TABLE qd_step ADD COLUMN code text UNIQUE": "ADD COLUMN UNIQUE qd_step",
    "ALTER TABLE qd_step ADD COLUMN n int CHECK (n > 0)": "ADD COLUMN CHECK qd_step",
    "ALTER TABLE qd_step ADD COLUMN v uuid REFERENCES qd_verifier (id)": "ADD COLUMN REFERENCES qd_step",
    "ALTER TABLE qd_checkpoint DROP COLUMN kind": "DROP COLUMN qd_checkpoint",
    "ALTER TABLE qd_step RENAME COLUMN node TO knot": "RENAME qd_step",
    "DROP TABLE IF EXISTS qd_outbox": "DROP TABLE qd_outbox",
    "LOCK TABLE qd_step IN EXCLUSIVE MODE": "LOCK TABLE qd_step",
    "VACUUM (FULL, ANALYZE) qd_step": "VACUUM FULL qd_step",
    "CLUSTER qd_step USING qd_step_once": "CLUSTER qd_step",
    "REINDEX TABLE qd_step": "REINDEX qd_step",
    "UPDATE qd_step SET pool = 'default'": "UPDATE qd_step",
    "DELETE FROM qd_inbox": "DELETE qd_inbox",
    "SELECT 1; /* two */ DO $$ BEGIN UPDATE qd_task AS t SET priority = 0; END $$": "UPDATE qd_task",
    "CREATE INDEX CONCURRENTLY i ON qd_step (node)": "CONCURRENTLY any table",
}

ALLOWED = {
    "small table": migrations.AddIndex("verifier", index()),
    "null column": add(models.IntegerField(null=True)),
    "null from now on": migrations.AlterField("step", "node", models.CharField(max_length=200, null=True)),
    "constant default": add(models.IntegerField(db_default=1)),
    "time default": add(models.DateTimeField(db_default=Now())),
    "help text": migrations.AlterField("step", "node", models.CharField(max_length=200, help_text="which node")),
    "not valid": AddConstraintNotValid("step", models.CheckConstraint(condition=models.Q(node="a"), name="c")),
    "validate": ValidateConstraint("step", "c"),
    "new table": migrations.CreateModel("New", [("id", models.BigAutoField(primary_key=True))], {"db_table": "qd_new"}),
    "state only": migrations.SeparateDatabaseAndState(state_operations=[migrations.RemoveField("step", "node")]),
    "function": migrations.RunSQL("CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ DELETE FROM qd_step $$"),
    "small table by hand": migrations.RunSQL("CREATE INDEX i ON qd_verifier (name); UPDATE qd_verifier SET number = 1"),
    "not valid by hand": migrations.RunSQL("ALTER TABLE qd_step ADD CONSTRAINT c CHECK (version > 0) NOT VALID"),
    "check not valid by hand": migrations.RunSQL("ALTER TABLE qd_step ADD CHECK (version > 0) NOT VALID"),
    "unique by an index that is there": migrations.RunSQL("ALTER TABLE qd_step ADD CONSTRAINT u UNIQUE USING INDEX i"),
    "time default by hand": migrations.RunSQL("ALTER TABLE qd_step ADD COLUMN at timestamptz NOT NULL DEFAULT now()"),
    "text default by hand": migrations.RunSQL("ALTER TABLE qd_step ADD COLUMN t text DEFAULT 'random(), CHECK me'"),
    "number default by hand": migrations.RunSQL("ALTER TABLE qd_step ADD n numeric(9,2) DEFAULT '0'::numeric(9,2)"),
    "lists by hand": migrations.RunSQL("ALTER TABLE qd_step ADD l text[] DEFAULT ARRAY['a', 'b'], ENABLE TRIGGER ALL"),
    "check on a small table": migrations.RunSQL("ALTER TABLE qd_verifier ADD CHECK (number > 0)"),
    "python on a small table": migrations.RunPython(fill_verifiers, migrations.RunPython.noop),
    "default by hand": migrations.RunSQL("ALTER TABLE qd_step ADD COLUMN n int NOT NULL DEFAULT 0"),
    "locking reads in a comment": migrations.RunSQL("-- UPDATE qd_step SET x = 1\nSELECT 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    operation, finding = REFUSED[name]
    assert finding in found(operation)


@pytest.mark.parametrize("sql", REFUSED_SQL)
def test_refused_by_hand(sql):
    assert REFUSED_SQL[sql] in found(migrations.RunSQL(sql))
    assert REFUSED_SQL[sql] in found(migrations.RunSQL([(sql, None)]))


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed(name):
    assert found(ALLOWED[name]) == []


def test_concurrent_work_outside_a_transaction():
    assert found(AddIndexConcurrently("step", index()), atomic=False) == []
    assert found(migrations.RunSQL("CREATE INDEX CONCURRENTLY i ON qd_step (node)"), atomic=False) == []
    assert found(migrations.RunSQL("REINDEX TABLE CONCURRENTLY qd_step"), atomic=False) == []


def test_a_partitioned_table_is_indexed_by_partition():
    assert found(AddIndexConcurrently("event", index()), atomic=False) == ["AddIndexConcurrently qd_event"]
    by_hand = "CREATE INDEX i ON ONLY qd_event (node)"
    assert found(migrations.RunSQL(by_hand)) == []


def test_our_own_migrations_pass():
    assert lint_project(["runtime", "approvals", "repair", "dashboard"]) == {}


@pytest.mark.parametrize(
    "table", ["qd_approval", "qd_approval_action", "qd_approval_decision", "qd_approval_note", "qd_case"]
)
def test_requests_and_cases_grow_as_well(table):
    by_hand = migrations.RunSQL(f"CREATE INDEX i ON {table} (id)")
    assert found(by_hand) == [f"CREATE INDEX {table}"]
