"""The loop of network calls lives once per process and survives a fork (engine.md 5)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.support.http_tool import HttpTool

ROOT = Path(__file__).resolve().parents[2]


def test_a_forked_worker_starts_its_own(shop: HttpTool) -> None:
    program = textwrap.dedent(f"""
        import os, sys
        sys.path.insert(0, {str(ROOT)!r})
        from tests.tools.conftest import run
        contract = {shop.contract("/ok")!r}
        assert run(contract).kind == "ok"
        child = os.fork()
        if child == 0:
            os._exit(0 if run(contract).kind == "ok" and run(contract).kind == "ok" else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert run(contract).kind == "ok"
    """)
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
    assert len(shop.effects()) == 4


def test_the_client_libraries_are_loaded_only_when_needed() -> None:
    program = (
        "import sys; import runtime.tools.calls, runtime.tools.builtin;"
        "assert not {'mcp', 'httpx2', 'pydantic'} & set(sys.modules), 'slow to load'"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
