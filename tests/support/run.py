"""``python -m tests.support.run ARGUMENTS``: pytest, with a second chance for what shares a noisy machine.

Tests that drive browsers, whole consoles and killed processes wait for what other processes do, and a machine that
stands still for half a minute fails one in some thousands of them. Those that failed are run once more, alone; both
outcomes are told at the end, and what fails twice fails the run. Tests of rules, rows and races have no second chance,
and more than a few failures at once are no noise.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOLD = "QUARTERDECK_TEST_FAILURES"
MOST = 4
NOISY = re.compile(r"tests/(browser|system|faults|bench|live)/")
_SOME_FAILED = 1


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """As a plugin of pytest: write down what failed, where TOLD names a file."""
    if told := os.environ.get(TOLD):
        reports = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
        Path(told).write_text("\n".join(dict.fromkeys(report.nodeid for report in reports)))


def worth_another_try(failed: Sequence[str]) -> bool:
    """Return whether all of these node ids are few, and tests of a kind that noise can fail."""
    return 0 < len(failed) <= MOST and all(NOISY.match(one) for one in failed)


def _pytest(arguments: Sequence[str], told: Path) -> tuple[int, list[str]]:
    """Run pytest; return its exit status and the node ids of what failed."""
    told.write_text("")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.run", *arguments]
    status = subprocess.run(command, env={**os.environ, TOLD: str(told)}, check=False).returncode
    return status, told.read_text().splitlines()


def main(arguments: Sequence[str]) -> int:
    """Run the tests; return pytest's exit status, that of the second run where there was one."""
    with tempfile.TemporaryDirectory(prefix="qd-tests-") as folder:
        told = Path(folder) / "failures"
        status, failed = _pytest(arguments, told)
        if status != _SOME_FAILED or not worth_another_try(failed):
            return status
        print(f"\n== {len(failed)} failed; once more, alone: {', '.join(failed)}", flush=True)
        status, again = _pytest(["-m", "", *failed], told)
    for one in failed:
        print(f"== {'FAILED TWICE' if one in again or status else 'failed, then passed alone'}: {one}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
