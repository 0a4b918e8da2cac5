"""The sentinel of agentbarrier as a tool: real workers call it, the suite's own process does the effect.

It is a tool as one should be written: it hears of a cancel and of a deadline, puts things in order, and says that
nothing was applied when that is so.
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any
from urllib.parse import quote

from runtime.tools.errors import ToolError
from runtime.tools.functions import CallContext

_LOOK_SECONDS = 0.02


def _ask(address: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data=data), timeout=20) as answer:
        return json.loads(answer.read())


def sentinel(arguments: dict[str, Any], context: CallContext) -> dict[str, Any]:
    """Do the effect over there and wait for it; when it is no longer wanted, stop it before it is done."""
    base = arguments["harness"]
    effect = {name: arguments[name] for name in ("action_id", "tool_name", "arguments")}
    call = _ask(f"{base}/start", effect)["call"]
    state = "going"
    while state == "going":
        if not context.sleep(_LOOK_SECONDS):
            state = _ask(f"{base}/stop/{call}", {})["state"]
            break
        state = _ask(f"{base}/state/{call}")["state"]
    if state == "stopped":
        raise ToolError("stopped before it was done", error_class="cancelled", applied=False)
    if state == "lost":
        raise ToolError("the answer was lost", error_class="network")
    return {"done": state == "done"}


def sentinel_found(arguments: dict[str, Any]) -> dict[str, Any]:
    """Look the effect up in the books, by what names it."""
    found: dict[str, Any] = _ask(f"{arguments['harness']}/books/{quote(arguments['action_id'], safe='')}")
    if "unavailable" in found:
        raise ToolError("the books are closed", error_class="server_error")
    return found
