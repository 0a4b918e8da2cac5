"""Recordings of what a tool can answer: their form, what each is read as, and whether that is as expected (C8.8)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from runtime.actions.verifying import REPORT, Callback, leads_to
from runtime.kernel.canonical import canonical_bytes, digest, loads
from runtime.kernel.errors import TRANSIENT_CLASSES, BadInput, InvalidJSON
from runtime.kernel.schemas import Compiled, compile_schema
from runtime.models.definitions import SAMPLE_KINDS
from runtime.tools.adapters.recorded import recorded
from runtime.tools.calls import CallRequest, replay
from runtime.tools.contract import ToolContract
from runtime.tools.contract_schema import ERROR_CLASSES

MAX_RECORDING_BYTES = 200_000
MOST_BYTES = 50_000_001
# What all recordings of a version are played with, besides the one that shows an answer above its contract's limit.
MOST_PLAYED, MOST_PLAYED_EACH = 20_000_000, 1_000_000
_TEXT = {"type": "string", "maxLength": 100_000}
_SIZE = {"type": "integer", "minimum": 1, "maximum": MOST_BYTES, "description": "A body of so many bytes."}
_ANSWERS: dict[str, dict[str, Any]] = {
    "http": {
        "answer": {
            "type": "object",
            "additionalProperties": False,
            "required": ["status"],
            "properties": {
                "status": {"type": "integer", "minimum": 200, "maximum": 599},
                "headers": {"type": "object", "maxProperties": 50, "additionalProperties": _TEXT},
                "json": True,
                "body": _TEXT,
                "base64": {**_TEXT, "pattern": "^[A-Za-z0-9+/]*={0,2}$"},
                "bytes": _SIZE,
            },
        },
        "broken": {"enum": ["refused", "timeout", "cut"], "description": "What the network did instead."},
    },
    "mcp": {
        "result": {"type": "object", "description": "A JSON-RPC result of tools/call."},
        "error": {
            "type": "object",
            "additionalProperties": False,
            "required": ["code", "message"],
            "properties": {"code": {"type": "integer"}, "message": _TEXT},
        },
        "broken": {"enum": ["closed", "garbage", "oversize"], "description": "What came instead."},
    },
    "python": {
        "answer": {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {"value": True, "bytes": _SIZE},
        },
        "raises": {
            "type": "object",
            "additionalProperties": False,
            "required": ["error_class"],
            "properties": {
                "message": _TEXT,
                "error_class": {"enum": list(ERROR_CLASSES)},
                "code": {"anyOf": [{"type": "string", "maxLength": 64}, {"type": "null"}]},
                "retry_after": {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]},
                "applied": {"type": ["boolean", "null"]},
            },
        },
        "raw": {**_TEXT, "description": "JSON that cannot be stored, or the line of a tool in a process of its own."},
    },
}
# How what is read may look for each kind: a recording that is none of its kind proves nothing.
_WORDS = {
    "normal": "A normal answer is read as `ok`.",
    "retryable_error": f"A retryable error has one of the classes {', '.join(sorted(TRANSIENT_CLASSES))}.",
    "deterministic_error": "A deterministic error is refused, or is an error whose class does not pass by itself.",
    "partial": "A writing tool's partial answer is no success.",
    "malformed": "What cannot be read has the class `protocol`.",
    "oversize": "What is too large has the class `oversize`.",
    "late_callback": "A late report leads to a query or to a case, or is refused.",
    "denied": "A denied call has the class `permission` or `policy`.",
}


def sample_schema(adapter: str) -> dict[str, Any]:
    """Return the JSON Schema of one sample of a tool with this adapter: {name, kind, recording, expect}."""
    answers = _ANSWERS[adapter]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "kind", "recording", "expect"],
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$"},
            "kind": {"enum": list(SAMPLE_KINDS)},
            "recording": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "arguments": {"type": "object", "description": "Of the call that was answered so. Default: none."},
                    **answers,
                    "callback": {"type": "object", "description": "A late report, without its token and epoch."},
                },
                "oneOf": [{"required": [name]} for name in (*answers, "callback")],
            },
            "expect": {
                "type": "object",
                "additionalProperties": False,
                "required": ["kind"],
                "properties": {
                    "kind": {"enum": ["ok", "error", "refused", "absent", "unknown", "not_sent", "query", "case"]},
                    "error_class": {"enum": list(ERROR_CLASSES)},
                    "code": {"type": "string", "maxLength": 100},
                },
            },
        },
        "if": {"properties": {"kind": {"const": "late_callback"}}},
        "then": {"properties": {"recording": {"required": ["callback"]}}},
        "else": {"properties": {"recording": {"not": {"required": ["callback"]}}}},
    }


@cache
def _form(adapter: str) -> Compiled:
    return compile_schema(sample_schema(adapter))


@cache
def _report_form() -> Compiled:
    form = {"type": "object", "required": ["version", "status"], "additionalProperties": False, "properties": REPORT}
    return compile_schema(form)


def check_sample(contract: ToolContract, sample: Any, where: str) -> tuple[bytes, bytes]:
    """Return (canonical bytes of the recording, SHA-256 of the sample). Raises BadInput naming the place."""
    try:
        size = len(canonical_bytes(sample))
    except InvalidJSON as error:
        mend = "Use only text and numbers that JSON stores without loss; `raw` and `base64` hold the rest."
        raise BadInput(error.detail, where=f"{where}{error.where or ''}", remediation=mend) from error
    if size > MAX_RECORDING_BYTES:
        mend = "Record a large body as `bytes`: only its size is kept."
        detail = f"A recording has at most {MAX_RECORDING_BYTES} bytes, this one has {size}."
        raise BadInput(detail, where=where, remediation=mend)
    if problems := _form(contract.adapter).problems(sample):
        first = problems[0]
        raise BadInput(first.detail, where=f"{where}{first.where}", remediation=first.mend)
    most, played = max(MOST_PLAYED_EACH, contract.max_result_bytes + 1), _body_bytes(sample["recording"])
    if played > most:
        detail = f"A body of a recording has at most {most} bytes, this one has {played}."
        mend = "One byte more than the contract's max_result_bytes shows what is too large."
        raise BadInput(detail, where=f"{where}/recording/answer/bytes", remediation=mend)
    hashed = {name: sample[name] for name in ("kind", "recording", "expect")}
    return canonical_bytes(sample["recording"]), digest(canonical_bytes(hashed))


def check_played(contract: ToolContract, recordings: Iterable[bytes]) -> None:
    """Raise BadInput when all recordings of a version, canonical bytes, are too much to be played at once."""
    most = MOST_PLAYED + contract.max_result_bytes + 1
    played = sum(len(one) + _body_bytes(loads(one)) for one in recordings)
    if played > most:
        mend = "Record smaller bodies, or fewer of them."
        detail = f"The recordings of a version have at most {most} bytes in all, these have {played}."
        raise BadInput(detail, where="/samples", remediation=mend)


def _body_bytes(recording: dict[str, Any]) -> int:
    """Return the size of a body of which a recording keeps the size alone."""
    answer = recording.get("answer")
    return int(answer.get("bytes", 0)) if isinstance(answer, dict) else 0


def read_recording(contract: ToolContract, recording: dict[str, Any]) -> dict[str, Any]:
    """Return what the tool's own reading makes of a recording: {kind, error_class, code}. Never raises.

    ``kind`` is that of a call; for a late report ``query`` or ``case``, which it leads to, or ``refused``.
    """
    if "callback" in recording:
        return _read_report(contract, recording["callback"])
    request = CallRequest(
        tool=contract,
        arguments=recording.get("arguments", {}),
        operation_id="sample" if contract.writes else None,
        business_key="sample",
        epoch=1,
    )
    result = replay(request, partial(recorded, recording=recording))
    return {"kind": result.kind, "error_class": result.error_class, "code": result.code}


def _read_report(contract: ToolContract, report: dict[str, Any]) -> dict[str, Any]:
    if _report_form().problems(report):
        return {"kind": "refused", "error_class": "validation", "code": None}
    Callback(token="", epoch=1, **report).content()
    askable = contract.recovery == "query" or contract.query is not None
    return {"kind": leads_to(askable), "error_class": None, "code": None}


def why_unfit(contract: ToolContract, kind: str, expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    """Return why what was read of a sample is not what it stands for, one sentence; None when it is."""
    for name in ("kind", "error_class", "code"):
        if name in expected and expected[name] != found[name]:
            return f"It was read as {name} `{found[name]}`; `{expected[name]}` was expected."
    return None if _fits(contract, kind, found) else _WORDS[kind]


def _fits(contract: ToolContract, kind: str, found: dict[str, Any]) -> bool:
    read, error_class = found["kind"], found["error_class"]
    if kind == "normal":
        return bool(read == "ok")
    if kind == "partial":
        return not (contract.writes and read == "ok")
    if kind == "late_callback":
        return read in ("query", "case", "refused")
    if kind == "retryable_error":
        return error_class in TRANSIENT_CLASSES
    if kind == "deterministic_error":
        return read in ("error", "refused") and error_class not in TRANSIENT_CLASSES
    classes = {"malformed": ("protocol",), "oversize": ("oversize",), "denied": ("permission", "policy")}
    return error_class in classes[kind]


def wanted_kinds(contract: ToolContract) -> tuple[str, ...]:
    """Return the kinds that a contract needs samples of: a part is of a write, a late report of who calls back."""
    left_out = set() if contract.writes else {"partial"}
    if not contract.config.get("callback"):
        left_out.add("late_callback")
    return tuple(kind for kind in SAMPLE_KINDS if kind not in left_out)
