"""The tools that benchmarks call: they tell the measuring process when a step's body began."""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from django.conf import settings

from runtime.tools.contract import ToolContract, check_contract
from runtime.tools.errors import ToolError
from runtime.tools.functions import CallContext, tool_function

_local = threading.local()


def socket_path() -> str:
    """Return the datagram socket of this data folder and database; such addresses hold about a hundred bytes."""
    database = settings.DATABASES["default"]
    place = f"{settings.QUARTERDECK_DATA}\n{database.get('HOST', '')}\n{database['NAME']}"
    name = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    return str(Path(tempfile.gettempdir()) / f"quarterdeck-bench-{name}.sock")


def send_mark(text: str, at: int) -> None:
    """Tell whoever listens; nobody is no error."""
    if not hasattr(_local, "socket"):
        _local.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        _local.socket.sendto(f"{text} {os.getpid()} {at}".encode(), socket_path())
    except OSError:
        return


@tool_function
def mark(arguments: dict[str, Any]) -> dict[str, Any]:
    """Report ``tag`` with the time (ns since 1970) at which this line ran."""
    at = time.time_ns()
    send_mark(arguments["tag"], at)
    return {}


@tool_function
def linger(arguments: dict[str, Any], *, context: CallContext) -> dict[str, Any]:
    """Report as ``mark`` does, then take ``seconds``."""
    at = time.time_ns()
    send_mark(arguments["tag"], at)
    context.sleep(arguments["seconds"])
    return {}


@tool_function
def write(arguments: dict[str, Any], *, context: CallContext) -> dict[str, Any]:
    """Stand for an effect outside that takes 5 ms."""
    context.sleep(0.005)
    return {"done": context.operation_id}


def books_path() -> Path:
    """Return the file whose presence says that the books of the effects whose answers were lost are open."""
    return Path(socket_path()).with_suffix(".books")


@tool_function
def lose(arguments: dict[str, Any]) -> dict[str, Any]:
    """Stand for an effect whose answer is lost on its way back. Raises ToolError, always."""
    raise ToolError("The answer was lost.", error_class="internal", applied=None)


@tool_function
def books(arguments: dict[str, Any]) -> dict[str, Any]:
    """Say whether the effect of a key is known: every one is, once the books are open."""
    return {"found": books_path().exists()}


_EFFECT: tuple[dict[str, Any], dict[str, Any]] = (
    {"side_effect": "none", "recovery": "replayable"},
    {"side_effect": "write", "recovery": "idempotent", "idempotency": "key"},
)


def contract(function: str, runs: str) -> ToolContract:
    """Return the contract of ``bench.<function>_<runs>@1``; ``runs`` is where the call happens: inline or thread."""
    return check_contract(
        {
            "name": f"bench.{function}_{runs}",
            "version": 1,
            "description": "Tells the benchmark when the step's body began.",
            "adapter": "python",
            "config": {"callable": f"{__name__}:{function}"},
            "input_schema": {"type": "object"},
            **_EFFECT[function == "write"],
            "runs": runs,
            "timeout_s": 60,
            "owner": "quarterdeck",
            "data_region": "here",  # the one that `Scene.bound` names
        },
        builtin=True,
    )


class Marks:
    """Receives what the tools send. Use it as a context; ``wait`` returns (process id, time in ns)."""

    def __enter__(self) -> Marks:
        Path(socket_path()).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self._socket.bind(socket_path())
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()
        Path(socket_path()).unlink(missing_ok=True)

    def wait(self, tag: str, seconds: float = 60.0, not_from: int | None = None) -> tuple[int, int]:
        """Return the first mark of ``tag``, of another process than ``not_from``. Raises TimeoutError."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                found, pid, at = self._socket.recv(4096).decode().split(" ")
            except TimeoutError:
                break
            if found == tag and int(pid) != not_from:
                return int(pid), int(at)
        raise TimeoutError(f"{tag} did not begin within {seconds:.0f} s")
