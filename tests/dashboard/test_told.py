"""What the engine writes and a page shows is told in the reader's language: each sentence in the code, found there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from django.utils import translation

from dashboard.presenters import acts, states, terms
from dashboard.presenters.repair_facts import facts
from dashboard.presenters.told import told
from runtime.kernel import seams
from runtime.models import Tenant
from runtime.tools.contract_schema import ERROR_CLASSES
from runtime.tools.query import Kind
from tests.dashboard.test_language import leaks
from tests.support.desk import Desk
from tests.support.pages import Reader

ROOT = Path(__file__).resolve().parents[2]
CHINESE = re.compile(r"[\u4e00-\u9fff]")
# Which argument of these calls is a text that a page shows: its place, and its name.
SAYS: dict[str, tuple[int | None, str]] = {
    "Failed": (1, "message"),
    "NotSent": (2, "message"),
    "failed": (2, "message"),
    "GateAnswer": (1, "reason"),
    "Verdict": (2, "reason"),
    "Finding": (3, "message"),
    "_unreachable": (3, "message"),
    "_held": (2, "message"),
    "_ask_again": (2, "why"),
    "_ask_person": (2, "evidence"),
    "_needs_human": (1, "evidence"),
    "need_case": (2, "reason"),
    "attention": (1, "evidence"),
    "attend": (1, "evidence"),
    "doubt_effect": (2, "reason"),
    "hand_over": (2, "evidence"),
    "park": (2, "why"),
    "go_on": (None, "reason"),
    "step_failed": (None, "message"),
    "note": (None, "reason"),
    "request_hold": (None, "reason"),
    "move_step": (None, "reason"),
    "move_run": (None, "reason"),
    "move_operation": (None, "reason"),
    "CaseNeed": (1, "reason"),
    "Act": (3, "reason"),
    "CallResult": (None, "message"),
    "_return": (None, "reason"),
}
# Where a function returns such a text, alone or behind its code.
RETURNS = {
    "runtime/worker/permits.py",
    "runtime/tools/egress.py",
    "runtime/tools/proof.py",
    "runtime/actions/recovery.py",
}
PLACES = (
    "runtime/actions",
    "runtime/graph",
    "runtime/machine",
    "runtime/worker",
    "runtime/tools",
    "approvals",
    "repair",
)
# What is no text of ours: a tool of the product says what it was asked to, and what Python says stays as it is.
NOT_OURS = re.compile(
    r"7: 7|7|HTTP 7(: 7)?|asked to fail|7 while waiting|recorded: 7|Operation 7: 7\.?"
    r"|A person is asked for the 7th time\."
)
# Texts with a word that is chosen far away, and what it may be.
CHOSEN = {
    "The 7 deadline passed before the call was sent.": ("run's", "order's"),
    "The run's budget of 7 (7) is used up.": ("calls", "effects"),
    "The budget of 7 (7) of run 7, above this one, is used up.": ("calls", "effects"),
}


def spoken(node: ast.expr, here: dict[str, list[ast.expr]]) -> list[str]:
    """Return what an expression can say, each place filled with 7; names are looked up in their function."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(parts) for parts in product(*(_part(one, here) for one in node.values))]
    if isinstance(node, ast.IfExp):
        return [*spoken(node.body, here), *spoken(node.orelse, here)]
    if isinstance(node, ast.BoolOp):
        return [text for one in node.values for text in spoken(one, here)]
    if isinstance(node, ast.Subscript):
        return spoken(node.value, here)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "redact":
        return spoken(node.args[0], here)
    if isinstance(node, ast.Name):
        return [text for one in here.get(node.id, ()) for text in spoken(one, {})]
    return []


def _part(node: ast.expr, here: dict[str, list[ast.expr]]) -> list[str]:
    if isinstance(node, ast.FormattedValue):
        said = spoken(node.value, here) if isinstance(node.value, ast.IfExp | ast.Name) else []
        return said or ["'7'" if node.conversion == ord("r") else "7"]
    return spoken(node, here)


def sentences() -> Iterator[tuple[str, str]]:
    """Yield (where, text) of every text that the engine writes into a reason, a message or a case."""
    for path in sorted(one for place in PLACES for one in (ROOT / place).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if "/api/" in name or "/management/" in name:
            continue
        tree = ast.parse(path.read_text())
        for scope in ast.walk(tree):
            if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from ((f"{name}:{scope.name}", text) for text in _of_function(scope, name in RETURNS))


def _of_function(scope: ast.FunctionDef | ast.AsyncFunctionDef, returned: bool) -> Iterator[str]:
    here: dict[str, list[ast.expr]] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            here.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(scope):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place, name = SAYS.get(called, (None, ""))
            given = [one.value for one in node.keywords if one.arg == name]
            if place is not None and len(node.args) > place:
                given.append(node.args[place])
            for one in given:
                yield from spoken(one, here)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in ("message", "applied"):
                    yield from spoken(value, here)
        elif returned and isinstance(node, ast.Return) and node.value is not None:
            said = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for one in said:
                yield from spoken(one, here)


def is_text(text: str) -> bool:
    return " " in text.strip() and not NOT_OURS.fullmatch(text)


@pytest.mark.req("B11.1")
def test_every_sentence_of_the_engine_is_told_in_the_readers_language():
    found = {
        (where, text.replace("7", word, 1))
        for where, text in sentences()
        for word in CHOSEN.get(text, ("7",))
        if is_text(text)
    }
    assert len(found) > 100
    texts = {text for _where, text in found}
    assert {
        "Sent once; no definite answer was recorded.",
        "nothing was sent",
        "The event did not come in time.",
    } <= texts
    with translation.override("zh-hans"):
        english = sorted({one for one in found if not CHINESE.search(told(one[1]))})
    assert not english, "name these in dashboard/presenters/told_texts.py"


def test_the_kinds_of_cases_are_told_in_the_readers_language():
    with translation.override("zh-hans"):
        assert not [text for text in seams.CASE_KINDS.values() if not CHINESE.search(told(text))]


def test_a_sentence_within_a_sentence_is_told_as_well():
    said = "Step pay cannot go on: The tool shop.refund@1 was retired."
    assert told(said) == "pay cannot go on: The tool shop.refund@1 was retired."
    with translation.override("zh-hans"):
        assert "工具 shop.refund@1 已退役" in told(said)
        assert told("Operation refund:7: unreachable for 31 minutes.") == "refund:7：工具无法连通 已 31 分钟。"


def test_what_a_tool_or_a_person_says_stays_as_it_was_written():
    with translation.override("zh-hans"):
        for said in ("HTTP 500: the till is locked", "ValueError: no such account", "The customer keeps the goods."):
            assert told(said) == said


def test_words_of_the_code_have_words_of_people():
    assert set(states.ERROR) >= set(ERROR_CLASSES)
    assert set(terms.KEPT) == {"observation", "candidate", "external_fact"}
    for kind in Kind.__args__:  # type: ignore[attr-defined]
        [shown] = facts([{"name": "finding", "value": kind, "source": "query", "observed_at": None}])
        assert "_" not in shown["text"]
    for source in states.SOURCE:
        assert states.person(source)["kind"] == "engine"


@pytest.mark.req("A10.3")
def test_every_act_of_the_audit_has_a_word():
    with translation.override("zh-hans"):
        told_of = {name for name in seams.known_acts() if not name.endswith(".read")}
        assert not sorted(name for name in told_of if not CHINESE.search(acts.audit_word(name, "act")))


def test_facts_of_a_case_are_sentences():
    rows = [
        {"name": "applied", "value": "Sent 3 times; no definite answer was recorded."},
        {"name": "error", "value": {"class": "network", "message": "The time limit passed."}},
        {"name": "proves_absence", "value": False},
    ]
    with translation.override("zh-hans"):
        shown = facts([{**one, "source": "engine", "observed_at": None} for one in rows])
    assert [one["text"] for one in shown] == [
        "已发送 3 次，没有记录到明确的回答。",
        "网络错误: 已超出时限。",
        "否",
    ]
    assert [one["word"] for one in facts([{**rows[0], "source": "engine", "observed_at": None}])] == ["Was it applied?"]


@pytest.mark.req("C8.4")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("recovery", ["human", "query", "compensable"])
def test_a_case_and_its_step_leak_no_english(tenant: Tenant, recovery: str):
    desk = Desk(tenant)
    run_id = desk.lost(recovery)
    reader = Reader(tenant, "admin")
    reader.post("/preferences/", {"language": "zh-hans", "next": "/now/"})
    listed = reader.get(f"/runs/{run_id}/repairs/")
    cases = re.findall(r"/repairs/([0-9a-f-]{36})/", listed)
    pages = [f"/repairs/{one}/" for one in dict.fromkeys(cases)]
    pages += [f"/runs/{run_id}/{tab}/" for tab in ("why", "events", "operations", "audit", "steps", "repairs")]
    pages += [f"/runs/{run_id}/steps/?step=pay&part={part}" for part in ("overview", "attempts", "content", "why")]
    found = {path: said for path in pages if (said := leaks(reader.get(path), ("the answer was lost",)))}
    assert not found
