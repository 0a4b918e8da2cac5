"""`manage.py tool list|register|retire|samples`: tool versions, and the recordings of what they answer."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from runtime.actions.retiring import retire_tool
from runtime.kernel.actor import Actor
from runtime.kernel.errors import BadInput
from runtime.management.cli import Act, every, read_json, reference, service_actor
from runtime.queries.definitions import list_tools
from runtime.queries.samples import read_samples
from runtime.tools.contract import MAX_CONTRACT_BYTES
from runtime.tools.recordings import MAX_RECORDING_BYTES
from runtime.tools.registry import register_tool
from runtime.tools.samples import MOST_AT_ONCE, add_samples, check_samples, sign_samples


class Command(Act):
    help = "Register an immutable version of a tool, retire one, list them, keep and sign a version's samples."

    def add_arguments(self, parser: CommandParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        one = acts.add_parser("register", help="register a version")
        one.add_argument("file", help="a tool contract as JSON; - reads stdin")
        two = acts.add_parser("retire", help="let no new workflow take a version; runs that name it go on")
        two.add_argument("reference", help="name@version")
        two.add_argument("--reason", required=True)
        three = acts.add_parser("samples", help="recordings of what a version answers")
        three.add_argument("what", choices=("list", "add", "check", "sign"))
        three.add_argument("reference", help="name@version")
        three.add_argument("file", nargs="?", help='add: {"samples": […]} as JSON; - reads stdin')
        three.add_argument("--reason", default="", help="sign: why, for the audit")
        three.add_argument("--from", dest="taken_from", type=int, help="sign: a version to take recordings over from")
        four = acts.add_parser("list", help="list every version of every tool with its contract")
        for each in (one, two, three, four):
            each.add_argument("--tenant", help="slug of the tenant (the only one, or acme)")

    def act(self, options: dict[str, Any]) -> Any:
        actor = service_actor(options["tenant"])
        if options["act"] == "samples":
            return _samples(actor, options)
        if options["act"] == "list":
            return every(list_tools, actor=actor)
        if options["act"] == "retire":
            name, version = reference(options["reference"], "shop.pay_back@1")
            return retire_tool(actor=actor, name=name, version=version, reason=options["reason"])
        contract = read_json(options["file"], limit=MAX_CONTRACT_BYTES)
        if not isinstance(contract, dict):
            raise BadInput("A tool contract is a JSON object.", where="/", remediation="See GET tools/schema/.")
        return register_tool(actor=actor, contract=contract)


def _samples(actor: Actor, options: dict[str, Any]) -> Any:
    name, version = reference(options["reference"], "shop.pay_back@1")
    what, file = options["what"], options["file"]
    if (file is not None) is not (what == "add"):
        raise BadInput("A file of samples is given to `add`, and to nothing else.", where="file")
    if what == "list":
        return read_samples(actor=actor, name=name, version=version)
    if what == "check":
        return check_samples(actor=actor, name=name, version=version)
    if what == "sign":
        given = {"reason": options["reason"], "taken_from": options["taken_from"]}
        return sign_samples(actor=actor, name=name, version=version, **given)
    given = read_json(file, limit=MOST_AT_ONCE * MAX_RECORDING_BYTES)
    samples = given.get("samples") if isinstance(given, dict) else given
    return add_samples(actor=actor, name=name, version=version, samples=samples)
