"""A browser window on the console: who signs in, what the console of the browser complains of, what axe finds."""

from __future__ import annotations

import time
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from tests.support.factories import make_member
from tests.support.pages import Scene
from tests.support.patience import patient
from tests.support.web import Web

PASSWORD = "correct horse battery"
SERIOUS = ("serious", "critical")


def settles(page: Page, script: str, wanted: object) -> None:
    """Wait until ``script`` returns ``wanted``; what a page does after it shows comes a little later."""
    until = time.monotonic() + patient(5)
    while (found := page.evaluate(script)) != wanted and time.monotonic() < until:
        page.wait_for_timeout(20)
    assert found == wanted


class Screen:
    """One window. ``complaints`` are errors and warnings of its console and exceptions of its scripts."""

    def __init__(self, site: Web, context: BrowserContext, page: Page, made: Scene) -> None:
        self.site, self.context, self.page, self.made = site, context, page, made
        self.complaints: list[str] = []
        self.expected: set[int] = set()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _console(self, message: ConsoleMessage) -> None:
        told = message.type in ("error", "warning")
        if told and not any(f"status of {status}" in message.text for status in self.expected):
            self.complaints.append(f"{message.type}: {message.text} {message.location}")

    def prefer(self, **cookies: str) -> None:
        """Set the reader's theme, zone or language."""
        names = {"theme": "qd_theme", "zone": "qd_zone", "language": "django_language"}
        self.context.add_cookies([{"name": names[k], "value": v, "url": self.site.url} for k, v in cookies.items()])

    def person(self, role: str) -> str:
        """Return the name of a new member who can sign in with PASSWORD."""
        user = make_member(self.made.tenant, role)
        # The tests' own fast hash is not among those that the real process accepts.
        user.password = PBKDF2PasswordHasher().encode(PASSWORD, salt="browser", iterations=1000)
        user.save(using="owner", update_fields=["password"])
        return user.username

    def sign_in(self, role: str) -> str:
        """Sign in through the form as a new member; returns their name."""
        name = self.person(role)
        self.page.goto(f"{self.site.url}/sign-in/")
        self.page.fill("[name=username]", name)
        self.page.fill("[name=password]", PASSWORD)
        self.page.click("button.btn-primary")
        self.page.wait_for_url("**/now/")
        return name

    def open(self, path: str) -> Page:
        """Open a page and wait until its scripts have run."""
        self.page.goto(f"{self.site.url}{path}")
        self.page.wait_for_selector("html[data-ready]")
        return self.page

    def overflow(self) -> list[str]:
        """Return what is wider than the window: nothing scrolls sideways but what says so."""
        return self.page.evaluate(
            """() => {
              const wide = innerWidth;
              if (document.documentElement.scrollWidth <= wide && document.body.scrollWidth <= wide) return [];
              return [...document.querySelectorAll('body *')].filter((node) => {
                for (let up = node.parentElement; up; up = up.parentElement)
                  if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(up).overflowX)) return false;
                return node.getBoundingClientRect().right > wide + 1;
              }).slice(0, 5).map((node) => node.outerHTML.slice(0, 160));
            }"""
        )

    def lengthened(self) -> list[str]:
        """Return what makes the document higher than the window: the shell's parts scroll, the document never does."""
        return self.page.evaluate(
            """() => {
              const root = document.documentElement, high = innerHeight;
              if (!document.querySelector('.app') || root.scrollHeight <= high) return [];
              const found = [...document.querySelectorAll('body *')].filter((node) => {
                const placed = getComputedStyle(node).position === 'absolute';
                return placed && node.getBoundingClientRect().bottom > high;
              }).slice(0, 5).map((node) => node.outerHTML.slice(0, 160));
              return [`the document is ${root.scrollHeight} px high in a window of ${high}`, ...found];
            }"""
        )

    def small_targets(self) -> list[str]:
        """Return buttons and fields that a thumb would miss (less than 36 px high)."""
        return self.page.evaluate(
            """() => [...document.querySelectorAll('button, .btn, select, textarea, .tabs a, .tabbar a')]
              .filter((node) => node.checkVisibility() && !node.closest('p, .meta, dd, .cap, dialog'))
              .filter((node) => { const box = node.getBoundingClientRect(); return box.height > 0 && box.height < 33; })
              .slice(0, 5).map((node) => node.outerHTML.slice(0, 160))"""
        )

    def violations(self) -> list[str]:
        """Return axe's serious findings on the page as it stands."""
        # All rules run; what passes is not written down node by node, which takes longer than the looking.
        found: dict[str, Any] = Axe().run(self.page, options={"resultTypes": ["violations"]}).response
        return [
            f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"][:3]
        ]
