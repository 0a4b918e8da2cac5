"""Tools as a customer ships them: plain functions, offered as entry points of an installed package."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from runtime.tools.errors import Refused, ToolError
from runtime.tools.functions import CallContext


def _note(arguments: dict[str, Any], text: str) -> None:
    with open(arguments["log"], "a", encoding="utf-8") as log:
        log.write(text + "\n")


def add(arguments: dict[str, Any]) -> dict[str, Any]:
    """Add two numbers."""
    return {"sum": arguments["a"] + arguments["b"]}


def effect(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Write the operation id to a file, then wait as long as asked."""
    _note(arguments, str(context.operation_id))
    time.sleep(arguments.get("then_wait_s", 0))
    return {"written": context.operation_id}


def told(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Answer what the context says."""
    return {
        "operation_id": context.operation_id,
        "business_key": context.business_key,
        "epoch": context.epoch,
        "tenant_id": context.tenant_id,
        "attempt": context.attempt,
        "remaining": context.remaining() > 0,
    }


def counting(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Tell how far it is, wait for a file where one is named, then answer which reports were taken."""
    taken = [context.progress(*one) for one in arguments["told"]]
    while "until" in arguments and not os.path.exists(arguments["until"]) and context.sleep(0.02):
        pass
    return {"taken": taken}


def forking(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Tell how far it is from a process of its own, as multiprocessing does, and itself answer what is large."""
    if (pid := os.fork()) == 0:
        for unit in range(1000):
            context.progress(unit, 1000, "even" if unit % 2 else "odd")
        os._exit(0)
    os.waitpid(pid, 0)
    return {"large": "a" * arguments["size"]}


def deaf(arguments: dict[str, Any]) -> dict[str, Any]:
    """Wait and hear nothing."""
    _note(arguments, str(os.getpid()))
    time.sleep(60)
    return {}


def deaf_once(arguments: dict[str, Any]) -> dict[str, Any]:
    """Hang at the first call, answer at once from the second on."""
    _note(arguments, str(os.getpid()))
    with open(arguments["log"], encoding="utf-8") as log:
        if len(log.readlines()) == 1:
            time.sleep(60)
    return {}


def listening(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Wait, and put things in order when cancelled."""
    _note(arguments, "started")
    context.cancel.wait(60)
    _note(arguments, "tidied up")
    raise ToolError("stopped", error_class="cancelled", applied=False)


def finishing(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Wait, and bring it to its end when cancelled."""
    _note(arguments, "started")
    context.cancel.wait(60)
    return {"done": True}


def family(arguments: dict[str, Any]) -> dict[str, Any]:
    """Start a child of its own and hang."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    _note(arguments, f"{os.getpid()} {child.pid}")
    time.sleep(60)
    return {}


def crash(arguments: dict[str, Any]) -> dict[str, Any]:
    """End the whole process."""
    sys.stderr.write("token=abcdef123456 and goodbye\n")
    sys.stderr.flush()
    os._exit(arguments.get("status", 7))


def chatty(arguments: dict[str, Any]) -> dict[str, Any]:
    """Print on the way and read the input."""
    print("hello from the tool", flush=True)
    os.write(1, b'{"value": "forged"}\n')
    return {"read": sys.stdin.read()}


def odd(arguments: dict[str, Any]) -> Any:
    """Answer with something that is no JSON, or none that is carried."""
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]
    shapes: dict[str, Any] = {
        "nan": {"a": float("nan")},
        "set": {1, 2},
        "surrogate": "\ud800",
        "big": 2**70,
        "key": {1: 2},
        "huge": "x" * 3_000_000,
        "deep": deep,
    }
    return shapes[arguments["shape"]]


def refuse(arguments: dict[str, Any]) -> Any:
    """Refuse."""
    raise Refused("not for you", error_class="permission", code="nope")


def busy(arguments: dict[str, Any]) -> Any:
    """Turn the call away for now."""
    raise ToolError("come back", error_class="rate_limited", retry_after=2.5, applied=False)


def bug(arguments: dict[str, Any]) -> Any:
    """Fail in a way nobody planned."""
    nothing: dict[str, Any] = {}
    return nothing["password=hunter2secret"]


def leave(arguments: dict[str, Any]) -> Any:
    """Try to end the process politely."""
    sys.exit(0)


def environment(arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer with the names of the environment."""
    return {"names": sorted(os.environ)}


def hungry(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take a lot of memory."""
    return {"size": len(bytearray(2_000_000_000))}


async def later(arguments: dict[str, Any]) -> dict[str, Any]:
    """Be no plain function."""
    return {}
