"""An MCP stdio server that misbehaves on request, written against the wire and not against a library.

Run as ``python mcp_tool.py LOG [FLAG…]``; every effect is one line in LOG. Flags: ``silent`` never answers, ``drift``
lists another schema, ``noise`` prints text in between, ``pages`` lists one tool a page, ``gone`` exits at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

LOG, FLAGS = sys.argv[1], sys.argv[2:]


def note(what: str, **more: Any) -> None:
    """Write one line to the log; a single small append is atomic."""
    with open(LOG, "a", encoding="utf-8") as log:
        log.write(json.dumps({"what": what, "pid": os.getpid(), **more}) + "\n")


def say(message: Any) -> None:
    """Send one message."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def text(value: str, error: bool = False) -> dict[str, Any]:
    """Return a tool result of one text."""
    return {"content": [{"type": "text", "text": value}], "isError": error}


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
    """Do what the tool's name says; None when nothing is to be answered."""
    before, _, moment = name.partition("_")
    if moment != "before":
        note("effect", tool=name, arguments=arguments)
    if before == "hang":
        time.sleep(60)
    if before == "die":
        os._exit(3)
    if name == "fail":
        return text("the shop says no", error=True)
    if name == "structured":
        return {**text("{}"), "structuredContent": {"n": 1}}
    if name == "number":
        return text('{"n": 1}')
    if name == "picture":
        return {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}
    if name == "huge":
        return text("x" * 20_000_000)
    if name == "shapeless":
        return {"nothing": "of the kind"}
    return text(f"did {name}")


def answer(message: dict[str, Any]) -> None:
    """Answer one request."""
    method, params, reply = (
        message.get("method"),
        message.get("params") or {},
        {"jsonrpc": "2.0", "id": message.get("id")},
    )
    if "id" not in message or "silent" in FLAGS:
        return
    if "noise" in FLAGS:
        sys.stdout.write("starting up, please wait\n")
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        server = {"name": "misbehaving", "version": "1"}
        version = params["protocolVersion"]
        say({**reply, "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}})
    elif method == "tools/list":
        kind = "number" if "drift" in FLAGS else "string"
        schema = {"type": "object", "properties": {"a": {"type": kind}}}
        tools = [{"name": name, "inputSchema": schema} for name in ("add", "fail", "hang_after")]
        if "pages" in FLAGS:
            index = int(params.get("cursor") or 0)
            more = {"nextCursor": str(index + 1)} if index + 1 < len(tools) else {}
            say({**reply, "result": {"tools": [tools[index]], **more}})
        else:
            say({**reply, "result": {"tools": tools}})
    elif method == "tools/call" and params["name"] == "rpc":
        say({**reply, "error": {"code": params["arguments"]["code"], "message": "no"}})
    elif method == "tools/call" and params["name"] in ("garbage", "surrogate", "nan"):
        note("effect", tool=params["name"], arguments=params["arguments"])
        odd = {"garbage": '{"jsonrpc": half', "surrogate": '"\\ud800"', "nan": '"x"'}[params["name"]]
        body = f'{{"content": [{{"type": "text", "text": {odd}}}], "structuredContent": {{"n": NaN}}}}'
        whole = f'{{"jsonrpc": "2.0", "id": {message["id"]}, "result": {body}}}'
        line = odd if params["name"] == "garbage" else whole
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    elif method == "tools/call" and params["name"] == "counting":
        token = params.get("_meta", {}).get("progressToken")
        for done, total in params["arguments"]["told"] if token is not None else ():
            more = {"progressToken": token, "progress": done, "total": total, "message": "for Jane Doe, card 4111"}
            say({"jsonrpc": "2.0", "method": "notifications/progress", "params": more})
        say({**reply, "result": text("told" if token is not None else "nobody asks")})
    elif method == "tools/call":
        result = call(params["name"], params.get("arguments") or {})
        if result is not None:
            say({**reply, "result": result})
    else:
        say({**reply, "error": {"code": -32601, "message": "no such method"}})


def main() -> None:
    """Serve until the input closes."""
    note("start")
    if "gone" in FLAGS:
        sys.stderr.write("cannot reach the books\n")
        sys.exit(4)
    for line in sys.stdin:
        answer(json.loads(line))
    note("end")


if __name__ == "__main__":
    main()
