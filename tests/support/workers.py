"""Real worker processes on a test's database: `manage.py worker`, `heartbeat` and `scheduler`, started, killed, frozen.

A ``Stack`` is what `manage.py up` keeps running, without the web and without restarts, so that a test decides what
lives. A ``Desk`` is a tenant's admin at work: registers tools and workflows, submits, waits, reads what is there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from runtime.actions.submit import Accepted, SubmitRequest, submit_bulk, submit_task
from runtime.actions.workflows import register_workflow
from runtime.kernel.errors import QuarterdeckError
from runtime.machine.law import RUN_ENDED
from runtime.models import Attempt, Event, Operation, Run, Step, Tenant
from runtime.store.tx import tenant_tx
from runtime.tools.builtin import BUILTIN_CONTRACTS
from runtime.tools.contract import ToolContract
from runtime.tools.registry import register_tool
from runtime.worker.children import die_with_parent
from tests.support.actors import member
from tests.support.db import Database
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
TOOLPACK = ROOT / "tests" / "support" / "toolpack"
# What a run comes to rest in: an end, or a person's hands.
RESTING = (*RUN_ENDED, "needs_attention")


def until(condition: Callable[[], Any], seconds: float, what: str, *, every: float = 0.02) -> Any:
    """Return the first true value of ``condition()``. Raises AssertionError long after ``seconds``."""
    deadline = time.monotonic() + patient(seconds)
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {patient(seconds):.1f} s")
        time.sleep(every)


def alive(pid: int) -> bool:
    """Say whether a process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Stop processes for the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


class Program:
    """One `manage.py` command as a process in a session of its own; its output goes to a file."""

    def __init__(self, name: str, environment: Mapping[str, str], log: Path) -> None:
        self.name, self.log, self.data = name, log, environment["QUARTERDECK_DATA"]
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), name],
                env=dict(environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def tree(self) -> list[int]:
        """Return the process and everything below it."""
        try:
            root = psutil.Process(self.pid)
            return [self.pid, *(child.pid for child in root.children(recursive=True))]
        except psutil.NoSuchProcess:
            return []

    def terminate(self, seconds: float = 30.0) -> int:
        """Ask to stop, wait, return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patient(seconds))

    def kill(self) -> None:
        """Kill -9 of the process and what is left of its group; a number that is somebody else's by now is spared."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
            return
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getpgid(process.pid) == self.pid and process.environ().get("QUARTERDECK_DATA") == self.data:
                    process.kill()

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")


class Stack:
    """Clusters of workers, a heartbeat and a scheduler in role worker on ``database``.

    ``limits`` are fields of ``kernel.conf.Conf`` (``lease_seconds=3``). What is not wanted from the start is left out
    with ``heartbeat=False`` and the like, and started later with ``start_…``.
    """

    def __init__(
        self,
        database: Database,
        *,
        workers: int = 2,
        clusters: int = 1,
        heartbeat: bool = True,
        scheduler: bool = True,
        environment: Mapping[str, str] | None = None,
        **limits: float | int | str,
    ) -> None:
        self.database = database
        self.folder = Path(tempfile.mkdtemp(prefix="qd-stack-", dir="/tmp"))
        more = {f"QUARTERDECK_{name.upper()}": str(value) for name, value in limits.items()}
        self.environment = database.environ(
            "worker",
            QUARTERDECK_DATA=str(self.folder),
            QUARTERDECK_WORKERS=str(workers),
            LOG_LEVEL="INFO",
            PYTHONPATH=os.pathsep.join(filter(None, [str(TOOLPACK), os.environ.get("PYTHONPATH", "")])),
            **{"SECRET_KEY": "of-the-tests", **more, **(environment or {})},
        )
        self.workers = workers
        self.programs: list[Program] = []
        self.heartbeat = self.start("heartbeat") if heartbeat else None
        self.clusters = [self.start("worker") for _ in range(clusters)]
        self.scheduler = self.start("scheduler") if scheduler else None

    def start(self, name: str) -> Program:
        """Start one more process."""
        program = Program(name, self.environment, self.folder / f"{name}-{len(self.programs)}.log")
        self.programs.append(program)
        return program

    def wait_ready(self, seconds: float = 40.0) -> Stack:
        """Wait until every worker process has a session."""
        wanted = len([p for p in self.clusters if p.process.poll() is None]) * self.workers
        try:
            until(lambda: len(self.sessions()) >= wanted, seconds, f"{wanted} sessions")
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.output()[-3000:]}") from None
        return self

    def sessions(self) -> dict[uuid.UUID, int]:
        """Return the live worker sessions: id → process id."""
        with self.database.connect() as connection:
            rows = connection.execute("SELECT id, pid FROM qd_worker_session WHERE ended_at IS NULL").fetchall()
        return {row[0]: row[1] for row in rows}

    def pid_of(self, session_id: uuid.UUID) -> int:
        """Return the process of a session, living or over."""
        with self.database.connect() as connection:
            row = connection.execute("SELECT pid FROM qd_worker_session WHERE id = %s", [session_id]).fetchone()
        assert row is not None
        return int(row[0])

    def output(self) -> str:
        """Return what all processes have written."""
        return "\n".join(f"--- {program.name} {program.pid}\n{program.output}" for program in self.programs)

    def stop(self) -> None:
        """Stop cleanly, workers first, as the supervisor does."""
        order = [p for name in ("worker", "scheduler", "heartbeat") for p in self.programs if p.name == name]
        for program in order:
            if program.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.terminate()

    def close(self) -> None:
        """End everything and forget the folder."""
        for program in self.programs:
            program.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Desk:
    """A tenant's admin at work, in the role of the calling process."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.actor = member(tenant, "admin")
        for contract in BUILTIN_CONTRACTS:
            register_tool(actor=self.actor, contract=json.loads(contract.canonical), builtin=True)

    def tool(self, contract: ToolContract | dict[str, Any]) -> str:
        """Register a tool and return its reference."""
        body = json.loads(contract.canonical) if isinstance(contract, ToolContract) else contract
        answer = register_tool(actor=self.actor, contract=body)
        return f"{answer['name']}@{answer['version']}"

    def workflow(self, *nodes: dict[str, Any], name: str = "w", **more: Any) -> str:
        """Register a workflow and return its name."""
        spec = {"format": "quarterdeck/1", "name": name, "nodes": list(nodes), **more}
        return self.register(spec)

    def register(self, spec: dict[str, Any]) -> str:
        register_workflow(actor=self.actor, raw=json.dumps(spec))
        return str(spec["name"])

    def submit(self, workflow: str, input: Any = None, **more: Any) -> uuid.UUID:
        """Submit one task and return its run."""
        request = SubmitRequest(workflow=workflow, input={} if input is None else input, **more)
        return submit_task(actor=self.actor, request=request).run_id

    def bulk(self, workflow: str, inputs: Iterable[Any], **more: Any) -> list[uuid.UUID]:
        """Submit many tasks and return their runs."""
        requests = [SubmitRequest(workflow=workflow, input=one, **more) for one in inputs]
        answers: list[Accepted | QuarterdeckError] = []
        for at in range(0, len(requests), 500):
            answers += submit_bulk(actor=self.actor, requests=requests[at : at + 500])
        assert all(isinstance(answer, Accepted) for answer in answers), answers
        return [answer.run_id for answer in answers if isinstance(answer, Accepted)]

    def run(self, run_id: uuid.UUID) -> Run:
        with tenant_tx(self.tenant.id):
            return Run.objects.get(id=run_id)

    def steps(self, run_id: uuid.UUID) -> dict[str, Step]:
        """Return the current steps of a run by node."""
        with tenant_tx(self.tenant.id):
            return {step.node: step for step in Step.objects.filter(run_id=run_id, superseded=False)}

    def step(self, run_id: uuid.UUID, node: str) -> Step:
        return self.steps(run_id)[node]

    def events(self, run_id: uuid.UUID, *types: str) -> list[Event]:
        """Return a run's events in order, of all types or of those given."""
        with tenant_tx(self.tenant.id):
            found = Event.objects.filter(run_id=run_id).order_by("seq")
            return list(found.filter(type__in=types) if types else found)

    def operations(self, run_id: uuid.UUID) -> list[Operation]:
        """Return the operations whose last sender is of this run, in the order of their intents."""
        with tenant_tx(self.tenant.id):
            return list(Operation.objects.filter(run_id=run_id).order_by("intended_at", "id"))

    def attempts(self, run_id: uuid.UUID) -> list[Attempt]:
        with tenant_tx(self.tenant.id):
            return list(Attempt.objects.filter(run_id=run_id).order_by("started_at", "number"))

    def output(self, run_id: uuid.UUID, node: str) -> Any:
        """Return a node's output from its checkpoint or the artifact that it points to."""
        query = """SELECT coalesce(c.output, a.content) FROM qd_checkpoint c
                   LEFT JOIN qd_artifact a ON a.id = c.artifact_id
                   WHERE c.run_id = %s AND c.node = %s ORDER BY c.execution_version DESC LIMIT 1"""
        with tenant_tx(self.tenant.id) as tx:
            row = tx.conn.execute(query, [run_id, node]).fetchone()
        assert row is not None, f"{node} has no checkpoint"
        return json.loads(bytes(row[0]))

    def wait(self, run_id: uuid.UUID, *statuses: str, seconds: float = 30.0) -> Run:
        """Wait until the run has one of ``statuses`` (by default: until it rests) and return it."""
        wanted = statuses or RESTING
        found: list[Run] = []

        def there() -> bool:
            found[:] = [self.run(run_id)]
            return found[0].status in wanted

        try:
            until(there, seconds, f"run {'/'.join(wanted)}")
        except AssertionError as problem:
            raise AssertionError(f"{problem}: it is {found[0].status}\n{self.story(run_id)}") from None
        return found[0]

    def wait_all(self, run_ids: Iterable[uuid.UUID], *, seconds: float = 60.0) -> dict[uuid.UUID, str]:
        """Wait until every run rests; return their statuses."""
        ids = list(run_ids)

        def resting() -> dict[uuid.UUID, str] | None:
            with tenant_tx(self.tenant.id):
                found = dict(Run.objects.filter(id__in=ids, status__in=RESTING).values_list("id", "status"))
            return found if len(found) == len(ids) else None

        try:
            return until(resting, seconds, f"{len(ids)} runs", every=0.05)
        except AssertionError as problem:
            with tenant_tx(self.tenant.id):
                open_runs = list(Run.objects.filter(id__in=ids).exclude(status__in=RESTING).values_list("id", "status"))
            raise AssertionError(f"{problem}: {open_runs[:5]}\n{self.story(open_runs[0][0])}") from None

    def wait_step(self, run_id: uuid.UUID, node: str, *statuses: str, seconds: float = 30.0) -> Step:
        """Wait until a node's current step has one of ``statuses`` and return it."""
        found: list[Step] = []

        def there() -> bool:
            found[:] = [self.step(run_id, node)]
            return found[0].status in statuses

        try:
            until(there, seconds, f"step {node} {'/'.join(statuses)}")
        except AssertionError as problem:
            raise AssertionError(f"{problem}: it is {found[0].status}\n{self.story(run_id)}") from None
        return found[0]

    def story(self, run_id: uuid.UUID) -> str:
        """Return a run's events as lines, for messages of failing tests."""
        return "\n".join(
            f"{e.seq:4} {e.type:22} {e.node or ''} {e.from_status or ''}>{e.to_status or ''} {e.cause or ''}"
            f" a{e.attempt} e{e.owner_epoch} {e.reason or ''} {json.dumps(e.payload) if e.payload else ''}"
            for e in self.events(run_id)[-60:]
        )


def told(desk: Desk, run_id: uuid.UUID) -> dict[str, str]:
    """Return node → status, with its cause in brackets where there is one."""
    return {n: f"{s.status}({s.cause})" if s.cause else s.status for n, s in desk.steps(run_id).items()}


def python_tool(name: str, *, runs: str = "thread", writes: bool = False, **more: Any) -> dict[str, Any]:
    """Return the contract of a function of the toolpack."""
    return {
        "name": f"test.{name}",
        "version": 1,
        "adapter": "python",
        "config": {"entry_point": f"test.{name}"},
        "input_schema": {"type": "object"},
        "side_effect": "write" if writes else "none",
        "recovery": "human" if writes else "replayable",
        "runs": runs,
        "timeout_s": 20,
        **more,
    }
