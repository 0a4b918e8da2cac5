"""Children that do not outlive their parent, also when the parent is killed with -9."""

from __future__ import annotations

import os
import signal
import sys

# Run by a bare interpreter in front of somebody else's program: tie it to the parent, then become it.
GUARD = """
import ctypes, os, sys
parent = int(sys.argv[1])
try:
    ctypes.CDLL(None).prctl(1, 9)
except Exception:
    pass
if os.getppid() != parent:
    os._exit(1)
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.stderr.write("cannot start %s: %s\\n" % (sys.argv[2], error.strerror))
    os._exit(127)
"""


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends; exit when that already happened.

    Only Linux can do this. Elsewhere a child ends when it sees its input closed.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def guarded(command: str, args: list[str]) -> list[str]:
    """Return the command line that runs a program tied to this process."""
    return [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), command, *args]
