"""An MCP server over streamable HTTP in another process, made with the official library.

Run as ``python -m tests.support.mcp_http_tool LOG``; it prints its port. Every effect is one line in LOG.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError


def note(text: str) -> None:
    """Write one line to the log."""
    with open(sys.argv[1], "a", encoding="utf-8") as log:
        log.write(text + "\n")


server = MCPServer("shop over http")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    note("add")
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    note("fail")
    raise ToolError("the shop says no")


@server.tool()
async def hang_after() -> str:
    """Do it, then answer nothing."""
    note("hang_after")
    await asyncio.sleep(60)
    return "late"


@server.tool()
def die_after() -> str:
    """Do it, then end the server."""
    note("die_after")
    os._exit(3)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def main() -> None:
    """Serve until the parent is gone."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
