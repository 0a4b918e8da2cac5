"""The list of pictures: each address leads to a page, and no entry of the sidebar or tab of a run is left out."""

from __future__ import annotations

import re
import uuid

from django.urls import resolve

from dashboard.example.setup import PEOPLE
from dashboard.example.workflows import workflows
from dashboard.pages import navigation
from dashboard.pages.run import TABS
from runtime.models.work import RUN_STATUSES
from tests.browser.pictures import PAGES, README_LOOKS, README_PAGES
from tests.support.pages import Scene

SHAPES = {"request": "/inbox/{}/", "case": "/repairs/{}/", "task": "/tasks/{}/"}
WORKFLOWS = {one["name"] for one in workflows(1)}


def address(written: str) -> str:
    """Return an address of the form that a page of the list has."""
    found = re.fullmatch(r"\{(\w+)(?:/([\w-]+))?\}(.*)", written)
    if found is None:
        return written
    kind, workflow, rest = found.groups()
    if kind not in SHAPES:
        assert kind in RUN_STATUSES, written
        assert workflow in WORKFLOWS, written
    return SHAPES.get(kind, "/runs/{}/").format(uuid.uuid4()) + rest


def test_each_address_of_the_list_leads_to_a_page():
    for name, (person, written) in PAGES.items():
        assert person in PEOPLE, name
        match = resolve(address(written).partition("?")[0])
        assert match.url_name != "run-tab" or match.kwargs["tab"] in TABS, name
    assert set(README_PAGES) <= set(PAGES)
    assert {name for names in README_LOOKS.values() for name in names} <= set(PAGES)


def test_no_page_of_the_sidebar_and_no_tab_of_a_run_is_left_out(made: Scene):
    shown = {address(written).partition("?")[0] for _person, written in PAGES.values()}
    named = {item.url for group in navigation.groups(made.engine.actor) for item in group.items}
    assert not named - shown
    tabs = {
        resolve(path).kwargs.get("tab", "graph") for path in shown if path.startswith("/runs/") and path != "/runs/"
    }
    assert tabs == set(TABS)
