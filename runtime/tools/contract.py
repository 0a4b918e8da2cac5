"""What is known about a tool before it is called: one immutable contract per name and version (C3.1, C4.1).

A contract is data. ``check_contract`` turns a JSON object into a ``ToolContract`` or names every place that is wrong;
``ToolContract.digest`` is what makes a version immutable: the registry refuses the same name and version with another
digest.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlsplit

from runtime.kernel import canonical
from runtime.kernel.errors import BadInput, InvalidJSON
from runtime.kernel.schemas import Compiled, SchemaProblem, compile_schema
from runtime.tools.addresses import is_closed_address
from runtime.tools.contract_rules import Problem, recovery_problems
from runtime.tools.contract_schema import CONTRACT_SCHEMA, OWN_ENVIRONMENT, PLACEHOLDER, REFERENCE_PATTERN

MAX_CONTRACT_BYTES = 262_144
_DEFAULTS: dict[str, Any] = {
    "description": "",
    "output_schema": None,
    "timeout_s": 60.0,
    "runs": "thread",
    "query": None,
    "lookup": None,
    "target_version": None,
    "success_evidence": None,
    "samples": "optional",
    "compensation": None,
    "idempotency": "none",
    "on_error": "unknown",
    "targets": [],
    "data_region": None,
    "owner": None,
    "scopes": [],
    "rate_limit": None,
    "serial": None,
    "pool": "default",
    "max_result_bytes": 1_000_000,
}
_RETRY_DEFAULTS: dict[str, Any] = {
    "max_attempts": 3,
    "initial_s": 1.0,
    "max_s": 60.0,
    "jitter": 0.2,
    "retry_on": ["transient"],
}
_METADATA_HOSTS = frozenset({"metadata.google.internal", "metadata", "instance-data"})


@dataclass(frozen=True, eq=False)
class ToolContract:
    """One version of one tool. Nothing in it is ever changed, the dicts included.

    Times are seconds, sizes bytes. ``runs`` says where the call happens: in the caller's thread, in a helper thread
    with a time limit, or in a child process that can be killed. ``idempotency`` says who keeps a second send from
    having a second effect: nobody, the tool by key, the tool by owner epoch, or the nature of the request.
    ``on_error`` says what it means when a *writing* tool itself reports an error. ``query`` and ``compensation`` are
    references "name@version" to other tools; ``lookup`` says how the query tool is asked and its answer read.
    ``target_version`` says which tool reads the version of what a call changes, and where its answer has it.
    ``success_evidence`` says what has to be shown before a write counts as a success. ``owner`` is a role, a member or
    a team: to whom doubts about its effects go. ``samples`` "required": nothing is called before recordings are signed.
    ``serial`` names the state that a write changes, with arguments in braces: one call at a time writes it.
    """

    name: str
    version: int
    adapter: str
    config: dict[str, Any]
    input_schema: dict[str, Any]
    side_effect: str
    recovery: str
    description: str = ""
    output_schema: dict[str, Any] | None = None
    timeout_s: float = 60.0
    runs: str = "thread"
    query: str | None = None
    lookup: dict[str, Any] | None = None
    target_version: dict[str, Any] | None = None
    success_evidence: dict[str, Any] | None = None
    samples: str = "optional"
    compensation: str | None = None
    idempotency: str = "none"
    on_error: str = "unknown"
    retry: dict[str, Any] = field(default_factory=lambda: dict(_RETRY_DEFAULTS))
    targets: tuple[str, ...] = ()
    data_region: str | None = None
    owner: str | None = None
    scopes: tuple[str, ...] = ()
    rate_limit: dict[str, Any] | None = None
    serial: str | None = None
    pool: str = "default"
    max_result_bytes: int = 1_000_000

    @property
    def reference(self) -> str:
        """The name a workflow uses: "name@version"."""
        return f"{self.name}@{self.version}"

    @property
    def writes(self) -> bool:
        """True when a call changes something outside, so that it needs an operation row."""
        return self.side_effect == "write"

    def state(self, arguments: dict[str, Any]) -> str | None:
        """Return the name of the state that a call with these arguments writes, None when nobody else has to wait."""
        if self.serial is None:
            return None
        return re.sub(
            r"\{([^{}]*)\}",
            lambda match: canonical.canonical_bytes(arguments.get(match[1])).decode("utf-8"),
            self.serial,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the contract as the JSON object that ``check_contract`` accepts."""
        value = asdict(self)
        value["targets"], value["scopes"] = list(self.targets), list(self.scopes)
        if value["lookup"] is None:
            del value["lookup"]  # a contract without one is the contract it was before there were lookups
        for younger in ("serial", "target_version", "success_evidence", "samples"):
            if value[younger] == _DEFAULTS[younger]:
                del value[younger]  # younger than the first contracts, whose digest it must not change
        return value

    @cached_property
    def canonical(self) -> bytes:
        """The canonical bytes of the whole contract, defaults filled in."""
        return canonical.canonical_bytes(self.as_json())

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of ``canonical``: the same name and version with another digest is another tool."""
        return canonical.digest(self.canonical)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolContract) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def parse_reference(reference: str) -> tuple[str, int]:
    """Split "name@version" into its parts; BadInput when the version is missing, since an open version can change."""
    match = re.fullmatch(REFERENCE_PATTERN, reference)
    if match is None:
        raise BadInput(
            f"{reference[:120]!r} is no tool reference.",
            remediation='Write the tool as "name@version", for example "core.echo@1".',
        )
    name, _, version = reference.rpartition("@")
    return name, int(version)


def check_contract(value: Any, *, builtin: bool = False) -> ToolContract:
    """Return the contract described by a JSON object; BadInput names each wrong place and its mend (C3.1).

    ``extra["problems"]`` of the error lists all of them; ``where`` is the first. Names under "core." belong to the
    product and need ``builtin``.
    """
    problems = _form_problems(value)
    if not problems:
        filled = _fill(value)
        problems = _meaning_problems(filled, builtin)
    if problems:
        first = problems[0]
        raise BadInput(
            first.detail,
            where=first.where,
            remediation=first.mend,
            problems=[{"where": p.where, "detail": p.detail, "remediation": p.mend} for p in problems[:20]],
        )
    filled["targets"] = tuple(host.lower() for host in filled["targets"])
    filled["scopes"] = tuple(filled["scopes"])
    return ToolContract(**filled)


def _form_problems(value: Any) -> list[Problem]:
    if not isinstance(value, dict):
        return [
            Problem("", "A tool contract is a JSON object.", "Send an object with name, version, adapter and so on.")
        ]
    try:
        size = len(canonical.canonical_bytes(value))
    except InvalidJSON as error:
        return [Problem(error.where or "", error.detail, "Use only text and numbers that JSON stores without loss.")]
    if size > MAX_CONTRACT_BYTES:
        return [Problem("", f"The contract has {size} bytes, the limit is {MAX_CONTRACT_BYTES}.", "Shorten it.")]
    return [Problem(found.where, found.detail, found.mend) for found in _contract_form().problems(value)]


def _fill(value: dict[str, Any]) -> dict[str, Any]:
    filled = {**_DEFAULTS, **value}
    filled["retry"] = {**_RETRY_DEFAULTS, **(value.get("retry") or {})}
    filled["timeout_s"] = float(filled["timeout_s"])
    filled["version"] = int(filled["version"])
    return filled


def _meaning_problems(c: dict[str, Any], builtin: bool) -> list[Problem]:
    problems = [*recovery_problems(c), *_schema_problems(c), *_ADAPTER_RULES[c["adapter"]](c)]
    if c["name"].startswith("core.") and not builtin:
        problems.append(Problem("/name", 'Names under "core." belong to the product.', "Choose another prefix."))
    if c["runs"] != "thread" and c["adapter"] != "python":
        problems.append(Problem("/runs", "Only a python tool runs inline or in a child process.", 'Write "thread".'))
    own = f"{c['name']}@{c['version']}"
    for part in ("query", "compensation"):
        if c[part] == own:
            problems.append(Problem(f"/{part}", f"The {part} of a tool is another tool.", "Name that tool."))
    if c["retry"]["initial_s"] > c["retry"]["max_s"]:
        problems.append(Problem("/retry/initial_s", "initial_s is greater than max_s.", "Lower it or raise max_s."))
    return problems


def _schema_problems(c: dict[str, Any]) -> list[Problem]:
    found = []
    for part in ("input_schema", "output_schema"):
        if c[part] is None:
            continue
        try:
            compile_schema(c[part])
        except SchemaProblem as problem:
            mend = "Use a self-contained JSON Schema (2020-12 unless $schema says otherwise) without remote references."
            found.append(Problem(f"/{part}{problem.where}", problem.detail, mend))
    return found


def _python_rules(c: dict[str, Any]) -> list[Problem]:
    if ("entry_point" in c["config"]) == ("callable" in c["config"]):
        mend = 'Give "entry_point" (a name in the group quarterdeck.tools), or "callable" for a built-in.'
        return [Problem("/config", "A python tool is named in exactly one way.", mend)]
    if c["targets"]:
        return [Problem("/targets", "Targets are the hosts of an http tool.", "Remove them.")]
    return []


def _http_rules(c: dict[str, Any]) -> list[Problem]:
    config = c["config"]
    if "url" not in config:
        return [Problem("/config/url", "An http tool needs a url.", "Give an absolute http or https address.")]
    url, found = config["url"], []
    fixed = url.split("{", 1)[0]
    parts = urlsplit(fixed)
    host_is_fixed = "{" not in url or "/" in fixed.partition("://")[2]
    if parts.scheme not in ("http", "https") or not parts.hostname or not host_is_fixed or parts.username is not None:
        mend = "Write an absolute http(s) address whose host is fixed, without user information."
        return [Problem("/config/url", "The host of the address must be fixed and absolute.", mend)]
    if not c["targets"]:
        found.append(Problem("/targets", "An http tool lists the hosts it may reach.", f'Add "{parts.hostname}".'))
    elif not target_allowed(tuple(h.lower() for h in c["targets"]), parts.scheme, parts.hostname, _port(url)):
        found.append(Problem("/targets", "The host of the address is not among the targets.", "Add it or correct it."))
    for index, target in enumerate(c["targets"]):
        if _is_metadata(target.rpartition(":")[0] if target.rpartition(":")[2].isdigit() else target):
            found.append(Problem(f"/targets/{index}", "Metadata and link-local addresses are closed.", "Remove it."))
    unknown = set(re.findall(PLACEHOLDER, url)) - set(c["input_schema"].get("properties", {}))
    if unknown and "properties" in c["input_schema"]:
        detail = f"The address uses {sorted(unknown)[0]!r}, which is no property of input_schema."
        found.append(Problem("/config/url", detail, "Declare the property or correct the name."))
    return found


def _mcp_rules(c: dict[str, Any]) -> list[Problem]:
    config = c["config"]
    if ("command" in config) == ("url" in config):
        mend = 'Give "command" for a stdio server or "url" for a streamable HTTP server.'
        return [Problem("/config", "An MCP tool names exactly one kind of server.", mend)]
    if "tool" not in config:
        return [Problem("/config/tool", "The name of the tool on the server is missing.", "Add it.")]
    if "url" not in config:
        return []
    parts = urlsplit(config["url"])
    if parts.scheme not in ("http", "https") or not parts.hostname or "{" in config["url"]:
        return [Problem("/config/url", "The address must be absolute and fixed.", "Write an http(s) address.")]
    if not target_allowed(tuple(h.lower() for h in c["targets"]), parts.scheme, parts.hostname, _port(config["url"])):
        return [Problem("/targets", "The server's host is not among the targets.", f'Add "{parts.hostname}".')]
    return []


_ADAPTER_RULES = {"python": _python_rules, "http": _http_rules, "mcp": _mcp_rules}


def target_allowed(targets: tuple[str, ...], scheme: str, host: str | None, port: int | None) -> bool:
    """Say whether a host is on an allow-list of "host" or "host:port" entries, in lower case.

    An entry without a port allows the default ports of http and https only (C3.2).
    """
    if not host or _is_metadata(host):
        return False
    bare = f"[{host}]" if ":" in host else host
    actual = port or (443 if scheme == "https" else 80)
    if f"{bare.lower()}:{actual}" in targets:
        return True
    return bare.lower() in targets and actual == (443 if scheme == "https" else 80)


def _is_metadata(host: str) -> bool:
    """Cloud metadata services live on link-local addresses and a few names; no tool has business there (C7.4)."""
    if host.lower().rstrip(".") in _METADATA_HOSTS:
        return True
    return is_closed_address(host.strip("[]"))


def _port(url: str) -> int | None:
    try:
        return urlsplit(url.split("{", 1)[0]).port
    except ValueError:
        return -1


@cache
def _contract_form() -> Compiled:
    return compile_schema(CONTRACT_SCHEMA)


__all__ = [
    "CONTRACT_SCHEMA",
    "MAX_CONTRACT_BYTES",
    "OWN_ENVIRONMENT",
    "Problem",
    "ToolContract",
    "check_contract",
    "parse_reference",
    "target_allowed",
]
