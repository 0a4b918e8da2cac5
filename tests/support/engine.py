"""Runs driven by hand: submit, claim, report, without a worker process. Every change goes through the real code."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql

from runtime.access.roles import verbs_of_role
from runtime.actions.submit import SubmitRequest, submit_task
from runtime.actions.workflows import register_workflow
from runtime.kernel.actor import Actor
from runtime.kernel.canonical import canonical_bytes, digest
from runtime.kernel.ids import uuid7
from runtime.management.example import register_builtin_tools
from runtime.models import Event, Run, Step, Tenant
from runtime.queries.rebuild import rebuild_run
from runtime.store.tx import plain_tx, tenant_tx
from runtime.worker.claim import Claimer
from runtime.worker.complete import complete
from runtime.worker.work import Claimed, Report
from tests.support.db import server


class Engine:
    """One tenant's engine under a test's hand, with one worker session."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.actor = Actor(kind="service", name="test", tenant_id=tenant.id, verbs=verbs_of_role("admin"))
        register_builtin_tools(self.actor)
        self.claimed: dict[uuid.UUID, Claimed] = {}
        self.renew()

    def renew(self) -> None:
        """Claim under a new worker session from now on."""
        self.session_id = self.open_session()
        self.claimer = Claimer(self.session_id)

    def open_session(self, lease: float = 1e9) -> uuid.UUID:
        """Open a worker session that no process stands behind."""
        session_id = uuid7()
        with plain_tx() as tx:
            tx.send("insert_session", (session_id, "test", 1, "", '["default"]', 8, "test", lease))
        return session_id

    def submit(self, document: dict[str, Any], value: Any = None, **more: Any) -> uuid.UUID:
        """Register ``document`` and submit a task of it; returns the run's id."""
        register_workflow(actor=self.actor, raw=json.dumps(document))
        request = SubmitRequest(workflow=document["name"], input={} if value is None else value, **more)
        return submit_task(actor=self.actor, request=request).run_id

    def claim(self, limit: int = 100) -> list[Claimed]:
        """Claim what is ready; the claims are kept by step id."""
        found = self.claimer.claim(self.tenant.id, "default", limit)
        self.claimed.update({one.step_id: one for one in found})
        return found

    def report(self, claimed: Claimed, outcome: str, value: Any = None, **more: Any) -> None:
        """Report what became of a claimed step."""
        report = Report(claimed, outcome, **more)
        if outcome == "succeeded":
            report.output = canonical_bytes({} if value is None else value)
            report.output_sha256 = digest(report.output)
            report.input_sha256 = digest(b"{}")
        elif outcome in ("failed", "retry") and report.error is None:
            report.error = {"class": "business", "message": "asked to"}
        if outcome == "retry" and report.not_before is None:
            report.cause, report.not_before = "retry_scheduled", claimed.now + timedelta(seconds=60)
        complete(self.tenant.id, [report])

    def finish(self, node: str, outcome: str = "succeeded", value: Any = None, **more: Any) -> None:
        """Claim until ``node`` is claimed, and report its outcome."""
        self.claim()
        claimed = next(one for one in reversed(self.claimed.values()) if one.node.id == node)
        self.report(claimed, outcome, value, **more)

    # -- what is there

    def run(self, run_id: uuid.UUID) -> Run:
        """Return the run's row."""
        with tenant_tx(self.tenant.id):
            return Run.objects.get(id=run_id)

    def step(self, run_id: uuid.UUID, node: str, version: int | None = None) -> Step:
        """Return a step's current row, or that of an execution version."""
        with tenant_tx(self.tenant.id):
            rows = Step.objects.filter(run_id=run_id, node=node)
            return rows.get(superseded=False) if version is None else rows.get(execution_version=version)

    def statuses(self, run_id: uuid.UUID) -> dict[str, str]:
        """Return node → status, a cause in brackets where there is one."""
        with tenant_tx(self.tenant.id):
            rows = Step.objects.filter(run_id=run_id, superseded=False)
            return {r.node: f"{r.status}({r.cause})" if r.cause else r.status for r in rows}

    def events(self, run_id: uuid.UUID, node: str | None = None) -> list[Event]:
        """Return the run's events in order, or those of a node."""
        with tenant_tx(self.tenant.id):
            rows = Event.objects.filter(run_id=run_id).order_by("seq")
            return list(rows.filter(node=node) if node else rows)

    def types(self, run_id: uuid.UUID, node: str | None = None) -> list[str]:
        """Return the types of the run's events in order."""
        return [event.type for event in self.events(run_id, node)]

    def check(self, run_id: uuid.UUID) -> None:
        """Assert that the events rebuild the rows."""
        assert rebuild_run(run_id, self.tenant.id) == []

    # -- verbs, in the version that is there

    def act(self, verb: Any, run_id: uuid.UUID, node: str, reason: str = "because", **more: Any) -> dict[str, Any]:
        """Call a step verb on the current row of ``node``."""
        step = self.step(run_id, node)
        arguments = {"actor": self.actor, "expected_version": step.version, "reason": reason, **more}
        return verb(step_id=step.id, **arguments)


@contextmanager
def past_every_guard(database: Any) -> Iterator[psycopg.Connection[Any]]:
    """Yield a superuser's connection with triggers off: to set a scene, or to break an invariant on purpose."""
    with psycopg.connect(server().admin_url(database.name), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        yield connection


def force_columns(database: Any, table: str, row_id: uuid.UUID, **columns: Any) -> None:
    """Write columns of one row past every guard."""
    assignments = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in columns)
    statement = sql.SQL("UPDATE {} SET {} WHERE id = %s").format(sql.Identifier(table), assignments)
    with past_every_guard(database) as connection:
        assert connection.execute(statement, [*columns.values(), row_id]).rowcount == 1


def sweep(database: Any, tenant_id: uuid.UUID) -> None:
    """Delete a tenant's runs: what a test left half done or broken must not meet the duties of another test."""
    with past_every_guard(database) as connection:
        cases = ("qd_case_fact", "qd_case_entry", "qd_case_proposal", "qd_case")
        kept = ("qd_runbook", "qd_case_chain", "qd_case_bulk_item", "qd_case_bulk")
        for table in (*kept, *cases, "qd_step", "qd_operation", "qd_run"):
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE tenant_id = %s").format(sql.Identifier(table)), [tenant_id]
            )


def refuse_writes(database: Any, table: str, column: str, value: Any) -> None:
    """Make the database refuse every write of rows with ``value`` in ``column``, as a damaged index or page would."""
    name = f"refuse_{table}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server().admin_url(database.name), autocommit=True) as connection:
        connection.execute(
            sql.SQL(
                "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'this row cannot be written' USING ERRCODE = 'XX001'; END $$"
            ).format(name=sql.Identifier(name))
        )
        connection.execute(
            sql.SQL(
                "CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW"
                " WHEN (NEW.{column} = {value}) EXECUTE FUNCTION {name}()"
            ).format(
                name=sql.Identifier(name),
                table=sql.Identifier(table),
                column=sql.Identifier(column),
                value=sql.Literal(value),
            )
        )
