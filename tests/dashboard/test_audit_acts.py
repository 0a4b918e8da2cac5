"""The audit's filter offers every act that the audit may name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.kernel import seams
from tests.support.pages import Reader, Scene

ROOT = Path(__file__).resolve().parents[2]
# Where acts are done and recorded; a dotted name of these subjects there is an act.
PLACES = ("runtime/actions", "runtime/tools", "approvals/actions", "repair/actions")
NAMED = re.compile(
    r"(?:approval|policy|repair|session|task|run|step|workflow|tool|operation|member|token)(?:\.[a-z_]+)+"
)
# Dotted names that are no act: a setting, and a path in an answer.
NO_ACT = {"operation.id"}


def texts() -> Iterator[tuple[str, str]]:
    """Yield (file, text) of every text of those places that looks like an act, and of those that are put together."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            for one in ast.walk(ast.parse(path.read_text())):
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and NAMED.fullmatch(one.value):
                    yield path.name, one.value
                if isinstance(one, ast.Call):
                    # ``handle(act="claim")`` records ``approval.claim``.
                    for given in one.keywords:
                        if (
                            given.arg == "act"
                            and isinstance(given.value, ast.Constant)
                            and place == "approvals/actions"
                        ):
                            yield path.name, f"approval.{given.value.value}"


@pytest.mark.req("A10.3")
def test_every_act_that_the_code_records_is_declared():
    found = set(texts())
    names = {name for _file, name in found} - NO_ACT
    assert {"approval.claim", "approval.escalate", "repair.propose", "repair.investigate", "session.begin"} <= names
    assert sorted(names - seams.known_acts()) == []


@pytest.mark.req("A10.3")
def test_the_filter_offers_what_the_list_holds(made: Scene, admin: Reader):
    page = admin.get("/audit/?within=all")
    offered = set(re.findall(r'<option value="([\w.]+)"', page))
    assert seams.known_acts() <= offered
    assert "session.begin" in offered
    assert '<option value="of.old" selected>' in admin.get("/audit/?verb=of.old"), "a link's act stays chosen"
