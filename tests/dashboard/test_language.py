"""Chinese pages are Chinese: each word of the code that reaches a page is in the catalog, and none leaks in English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import pytest
from django.utils import translation

from approvals.models import Request
from dashboard.pages.run import TABS
from dashboard.presenters import states
from dashboard.presenters.told import told
from runtime.access.roles import ROLES
from runtime.graph.plan import Kind
from runtime.kernel import seams
from runtime.kernel.errors import QuarterdeckError
from runtime.queries.definitions import list_tools
from runtime.queries.outputs import OUTPUT_KINDS
from runtime.store.tx import tenant_tx
from tests.support.alarms import about, alert
from tests.support.messages import catalog
from tests.support.pages import Reader

ROOT = Path(__file__).resolve().parents[2]


def titles(error: type[QuarterdeckError] = QuarterdeckError) -> Iterator[str]:
    if error.__module__.startswith(("runtime.", "approvals.", "repair.")) and ".api." not in error.__module__:
        yield error.title
    for one in error.__subclasses__():
        yield from titles(one)


def causes() -> set[str]:
    """Return every cause that the code names in a call."""
    found: set[str] = set()
    for app in ("runtime", "approvals", "repair"):
        for path in (ROOT / app).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.keyword) and node.arg == "cause" and isinstance(node.value, ast.Constant):
                    found.add(node.value.value)
    return found - {None}


def test_what_the_code_says_on_a_page_is_in_the_catalog():
    known = catalog()
    assert not [text for text in ROLES.values() if text not in known]
    assert not [text for text in seams.known_verbs().values() if text not in known]
    assert not [one.says for one in seams.known_settings().values() if one.says not in known]
    assert not [title for title in titles() if title not in known]
    assert not causes() - set(states.CAUSE)
    assert set(get_args(Kind)) <= set(states.KIND)
    assert set(OUTPUT_KINDS) == set(states.OUTPUT)


REWORDED = {
    "Failed runs: refund, step pay, error at the tool (2)",
    "Failed runs: refund, deadline passed (2)",
    "No receipt for refund:A-1 from shop.refund@1.",
}


@pytest.mark.parametrize(
    "title",
    [
        "Effects of unknown outcome: shop.refund@1 (3)",
        "Runs that need attention: refund (1)",
        "Failed runs: refund, step pay, server_error (2)",
        "Failed runs: refund, deadline (2)",
        "Steps that are ready and are not started (9)",
        "Messages that do not leave (1)",
        "Write transactions that stay open (1)",
        "Messages in quarantine: mail (1)",
        "Workers alive without progress: host (1)",
        "Workers lost and not replaced: host (1)",
        "Events that are not handled: search (1)",
        "Calls held back, the tool keeps failing: shop.refund@1 (1)",
        "So much waits that new work is refused, low priority first (1)",
        "Operation refund:A-1: receipt unknown on shop.refund@1.",
        "Sent once; no definite answer was recorded.",
        "Sent 3 times; no definite answer was recorded.",
    ],
)
def test_titles_of_alerts_and_reasons_are_told_in_the_readers_language(title):
    assert told(title) in (title, *REWORDED)
    with translation.override("zh-hans"):
        assert re.search(r"[\u4e00-\u9fff]", told(title))


class Words(HTMLParser):
    """What a page says to eyes and ears, without code, data and what is set in a fixed width."""

    SILENT = ("script", "style", "svg", "code", "pre", "head")
    SAID = ("aria-label", "placeholder", "title", "alt")
    EMPTY = ("input", "br", "img", "hr", "link", "meta", "use", "path", "rect", "circle", "line")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.stack: list[bool] = [True]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        silent = tag in self.SILENT or "mono" in (given.get("class") or "")
        if self.stack[-1] and not silent:
            self.found += [given[name] or "" for name in self.SAID if name in given]
        if tag not in self.EMPTY:
            self.stack.append(self.stack[-1] and not silent)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY and len(self.stack) > 1:
            self.stack.pop()

    def handle_data(self, data: str) -> None:
        if self.stack[-1]:
            self.found.append(data.strip())


PHRASE = re.compile(r"[A-Za-z][a-z’']+(?:,? [a-z’']{2,}){2,}")
# What people wrote in the scene, and names.
WRITTEN = ("the other side confirmed by phone", "Book the <b>trip</b>", "the <script>alert(1)</script> answered 500")


def leaks(page: str, written: tuple[str, ...]) -> list[str]:
    """Return phrases of three and more English words that a page says and nobody wrote."""
    words = Words()
    words.feed(page)
    found = []
    for text in words.found:
        for one in (*WRITTEN, *written):
            text = text.replace(one, "")
        found += PHRASE.findall(text)
    return found


def paths(made: Any) -> list[str]:
    """Return the pages of the console; the events of a run are the ledger as it was written."""
    with tenant_tx(made.tenant.id):
        request = Request.objects.get(run_id=made.runs["asks"])
    found = ["now", "runs", "tasks", "inbox", "repairs", "repairs/shift", "workflows", "workflows/trip", "tools"]
    found += ["inbox/statistics", "limits", "alerts", "delegations"]
    found += ["tools/core.echo", "workers", "members", "tokens", "messages", "stops", "audit", "states"]
    found += [f"inbox/{request.id}", "workflows/trip/start", "no/such/page"]
    found += [f"runs/{run_id}/{tab}" for run_id in made.runs.values() for tab in TABS if tab != "events"]
    found.append(f"tasks/{made.engine.run(made.runs['asks']).task_id}")
    step = made.engine.step(made.runs["failed"], "a")
    found += [f"steps/{step.id}/verbs/{verb}" for verb in ("rerun", "mark-successed")]
    found.append(f"runs/{made.runs['runs']}/verbs/cancel")
    return [f"/{one}/" for one in found]


def test_no_page_leaks_english(made, admin: Reader):
    alert(made.tenant, "worker_lost", about("worker", label="process 7: lease_lost"))
    alert(made.tenant, "worker_lost", about("worker", label="process 8: process_died"))
    alert(made.tenant, "quarantined", about("message", label="mail.sent: not tried yet"), count=3)
    alert(made.tenant, "circuit_open", about("breaker", label="timeout: 7 failures"))
    alert(made.tenant, "queue_full", about("queue", label="steps of this tenant that wait: 9000"))
    tools = list_tools(actor=made.engine.actor, limit=500).items
    written = tuple(one["contract"]["description"] for one in tools if one["contract"].get("description"))
    admin.post("/preferences/", {"language": "zh-hans", "next": "/now/"})
    found = {path: said for path in paths(made) if (said := leaks(admin.get(path, None), written))}
    assert not found


def test_the_search_for_leaks_finds_one():
    assert leaks('<p title="运行">Nothing was done here</p><code>a b c d e</code>', ()) == ["Nothing was done here"]
    assert leaks('<button aria-label="close this dialog now">×</button>', ()) == ["close this dialog now"]
