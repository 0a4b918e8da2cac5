"""`tests.support.run`: what failed among processes is run once more alone, and told; rules have no second chance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.run import MOST, worth_another_try

ROOT = Path(__file__).resolve().parents[1]
ONCE = """
from pathlib import Path
def test_it():
    mark = Path(__file__).with_suffix(".ran")
    ran = mark.exists()
    mark.touch()
    assert ran
"""
ALWAYS = "def test_it():\n    assert False\n"


@pytest.mark.parametrize(
    ("place", "body", "status", "told"),
    [
        ("tests/faults", ONCE, 0, "failed, then passed alone: tests/faults/test_some.py::test_it"),
        ("tests/faults", ALWAYS, 1, "FAILED TWICE: tests/faults/test_some.py::test_it"),
        ("tests/machine", ONCE, 1, ""),
    ],
    ids=["noise", "fault", "rule"],
)
def test_what_shares_a_noisy_machine_has_one_more_try_that_is_told(tmp_path, place, body, status, told):
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "test_some.py").write_text(body)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    program = "import sys; from tests.support.run import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "-p", "no:django", f"{place}/test_some.py"]
    # Not in the present folder's `tests`, which hides ours.
    environment = {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", "PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert told in done.stdout
    assert ("once more" in done.stdout) is bool(told)


def test_many_failures_are_no_noise():
    some = [f"tests/faults/test_some.py::test_{n}" for n in range(MOST)]
    assert worth_another_try(some)
    assert not worth_another_try([*some, "tests/faults/test_some.py::test_more"])
    assert not worth_another_try([*some[1:], "tests/races/test_some.py::test_rule"])
    assert not worth_another_try([])
