"""Fixtures of the tool tests: no database, real processes, real sockets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.tools.calls import CallRequest, CallResult, call
from runtime.tools.contract import ToolContract, check_contract
from tests.support.http_tool import HttpTool

TOOLPACK = str(Path(__file__).resolve().parents[1] / "support" / "toolpack")


@pytest.fixture(autouse=True)
def toolpack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the customer's package visible, as an installed one is."""
    monkeypatch.syspath_prepend(TOOLPACK)
    assert TOOLPACK in sys.path


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[HttpTool]:
    """The outside service in its own process."""
    with HttpTool(tmp_path) as tool:
        yield tool


def python_contract(name: str, *, runs: str = "thread", writes: bool = False, **more: Any) -> ToolContract:
    """Return the contract of a function of the toolpack."""
    config = {"entry_point": f"test.{name}", **more.pop("config", {})}
    value = {
        "name": f"test.{name}",
        "version": 1,
        "adapter": "python",
        "config": config,
        "input_schema": {"type": "object"},
        "side_effect": "write" if writes else "none",
        "recovery": "human" if writes else "replayable",
        "runs": runs,
        "timeout_s": 20,
        **more,
    }
    return check_contract(value)


def run(contract: ToolContract | dict[str, Any], arguments: dict[str, Any] | None = None, **more: Any) -> CallResult:
    """Make one call."""
    tool = contract if isinstance(contract, ToolContract) else check_contract(contract)
    return call(CallRequest(tool=tool, arguments=arguments or {}, **more))
