"""`manage.py submit WORKFLOW --input FILE|- [--tenant] [--request-key] [--wait]`."""

from __future__ import annotations

import sys
import time
from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.submit import SubmitRequest, submit_task
from runtime.kernel.conf import conf
from runtime.kernel.errors import NotFound
from runtime.machine.law import RUN_ENDED
from runtime.management.cli import Act, read_json, service_actor
from runtime.queries.runs import read_run


class Command(Act):
    help = "Submit a task. With --wait it prints the run once it has ended, and exits with 1 unless it completed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("workflow")
        parser.add_argument("--input", required=True, metavar="FILE", help="the task's input as JSON; - reads stdin")
        parser.add_argument("--workflow-version", type=int, help="version of the workflow (the newest)")
        parser.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")
        parser.add_argument("--request-key", help="the same key and input answer the same task")
        parser.add_argument("--name", default="", help="a name to find the task by")
        parser.add_argument("--wait", action="store_true", help="wait until the run has ended")
        parser.add_argument("--wait-seconds", type=float, default=3600, help="give up waiting after so long (3600)")

    def act(self, options: dict[str, Any]) -> Any:
        limits = conf()
        value = read_json(options["input"], limit=limits.max_payload_bytes, max_depth=limits.max_json_depth)
        actor = service_actor(options["tenant"])
        request = SubmitRequest(
            workflow=options["workflow"],
            version=options["workflow_version"],
            input=value,
            request_key=options["request_key"],
            name=options["name"],
        )
        try:
            accepted = submit_task(actor=actor, request=request)
        except NotFound as problem:
            if problem.where == "/workflow":
                problem.remediation = "`manage.py workflow list` lists the registered ones."
            raise
        answer = {"task_id": accepted.task_id, "run_id": accepted.run_id, "status": "accepted"}
        if not options["wait"]:
            return {**answer, "replayed": accepted.replayed}
        run = self._wait(actor, accepted.run_id, options["wait_seconds"])
        self.show(run)
        if run["status"] != "completed":
            sys.exit(1)
        return None

    def _wait(self, actor: Any, run_id: Any, seconds: float) -> dict[str, Any]:
        give_up, pause = time.monotonic() + seconds, 0.02
        while True:
            run = read_run(actor=actor, run_id=run_id)
            if run["status"] in RUN_ENDED or time.monotonic() > give_up:
                return run
            time.sleep(pause)
            pause = min(pause * 1.5, 1.0)
