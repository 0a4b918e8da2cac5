"""A process loads no optional parts of libraries that it does not use: every start would pay for them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.db import Database
from tests.support.workers import ROOT

UNUSED = ["cel.cli", "prompt_toolkit", "rich", "typer"]


def said_by(program: str, environment: dict[str, str] | None = None) -> object:
    """Run a program and return what it prints as JSON."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_a_worker_loads_no_shell_and_no_painter(database: Database):
    program = f"""
import django, json, sys
django.setup()
import runtime.worker.cluster, runtime.worker.entry
print(json.dumps([name for name in {UNUSED!r} if name in sys.modules]))
"""
    assert said_by(program, database.environ("worker")) == []


@pytest.mark.req("A9.3")
def test_whoever_asks_for_what_was_left_out_gets_it():
    program = """
import json
from runtime.graph.cellib import cel
from runtime.kernel.imports import without
with without("rich"):
    try:
        import rich
        found = True
    except ImportError:
        found = False
from cel import cli
import rich
print(json.dumps([found, callable(cli.main), rich.__name__, cel.evaluate("1 + 1")]))
"""
    assert said_by(program) == [False, True, "rich", 2]


def test_what_is_loaded_already_stays():
    program = """
import json, sys
import json.tool
from runtime.kernel.imports import emptied, without
with without("json.tool"), emptied("json.decoder"):
    from json import decoder, tool
print(json.dumps([callable(tool.main), hasattr(decoder, "JSONDecoder"), "json.tool" in sys.modules]))
"""
    assert said_by(program) == [True, True, True]
