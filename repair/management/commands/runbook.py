"""`manage.py runbook set FILE --tool NAME --error-class CLASS`, `runbook list`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from repair.actions.runbooks import MOST_CHARACTERS, write_runbook
from repair.runbooks import list_runbooks, runbook_versions
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, read_file, service_actor


class Command(Act):
    help = "Runbooks: what repair cases of a tool and an error class show."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("set", help="write the next version of a runbook")
        one.add_argument("file", help="Markdown in UTF-8, - for standard input; an empty one takes the runbook away")
        one.add_argument("--tool", default="", help="name@version or a name; without it, every tool")
        one.add_argument("--error-class", default="", help="without it, every class")
        one.add_argument("--expected-version", type=int, help="the version that was read; without it, the newest")
        one.add_argument("--reason", default="")
        two = acts.add_parser("list", help="list the runbooks that stand")
        for each in (one, two):
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        if options["act"] == "list":
            for row in list_runbooks(actor=actor):
                self.show(row)
            return None
        try:
            text = read_file(options["file"], limit=4 * MOST_CHARACTERS).decode()
        except UnicodeDecodeError as problem:
            raise BadInput("A runbook is UTF-8.", where=options["file"], remediation="Save it as UTF-8.") from problem
        tool, error_class, expected = options["tool"], options["error_class"], options["expected_version"]
        if expected is None:
            versions = runbook_versions(actor=actor, tool=tool, error_class=error_class)
            expected = versions[0]["version"] if versions else 0
        return write_runbook(
            actor=actor, tool=tool, error_class=error_class, text=text, expected_version=expected,
            reason=options["reason"],
        )  # fmt: skip
