"""Pictures of the main pages of a running console: light, dark, on a phone and in Chinese.

``python -m tests.browser.pictures --url http://127.0.0.1:8000 --data .quarterdeck --out build/pictures``: gives the
example's people new passwords (``manage.py example passwords``), signs in with them, and writes one PNG per page and
look. With ``--readme`` it writes the pictures that README shows, as WebP, into ``static/docs/console``.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
LOOKS = {
    "light": ({"width": 1440, "height": 900}, {"qd_theme": "light", "django_language": "en"}),
    "dark": ({"width": 1440, "height": 900}, {"qd_theme": "dark", "django_language": "en"}),
    "phone": ({"width": 390, "height": 844}, {"qd_theme": "light", "django_language": "en"}),
    "zh": ({"width": 1440, "height": 900}, {"qd_theme": "light", "django_language": "zh-hans"}),
}
# Page → (who looks at it, its address; in braces: the newest run of a status and workflow, or the first of a list).
PAGES = {
    "now": ("oncall", "/now/"),
    "runs": ("oncall", "/runs/"),
    "tasks": ("oncall", "/tasks/"),
    "task": ("oncall", "{task}"),
    "graph": ("oncall", "{partially_completed/close-books}"),
    "attention": ("oncall", "{needs_attention/pick-up}?step=book"),
    "timeline": ("oncall", "{completed/refund}timeline/"),
    "steps": ("oncall", "{needs_attention/pick-up}steps/"),
    "events": ("oncall", "{completed/refund}events/"),
    "operations": ("oncall", "{needs_attention/pick-up}operations/"),
    "run-repairs": ("oncall", "{needs_attention/pick-up}repairs/"),
    "run-approvals": ("oncall", "{waiting_approval/refund}approvals/"),
    "artifacts": ("oncall", "{completed/refund}artifacts/"),
    "run-audit": ("oncall", "{cancelled/refund}audit/"),
    "why": ("oncall", "{needs_attention/pick-up}why/"),
    "alerts": ("admin", "/alerts/"),
    "inbox": ("approver", "/inbox/"),
    "statistics": ("admin", "/inbox/statistics/"),
    "delegations": ("admin", "/delegations/"),
    "approval": ("approver", "{request}"),
    "repairs": ("oncall", "/repairs/"),
    "repair": ("oncall", "{case}"),
    "repairs-several": ("oncall", "/repairs/several/"),
    "runbooks": ("admin", "/repairs/runbooks/"),
    "escalation": ("admin", "/repairs/escalation/"),
    "shift": ("oncall", "/repairs/shift/"),
    "workflows": ("integrator", "/workflows/"),
    "workflow": ("integrator", "/workflows/refund/"),
    "start": ("integrator", "/workflows/refund/start/"),
    "tools": ("integrator", "/tools/"),
    "tool": ("integrator", "/tools/shop.refund/"),
    "workers": ("oncall", "/workers/"),
    "stops": ("oncall", "/stops/"),
    "limits": ("admin", "/limits/"),
    "webhooks": ("admin", "/webhooks/"),
    "policy": ("admin", "/policy/"),
    "messages": ("admin", "/messages/"),
    "members": ("admin", "/members/"),
    "tokens": ("admin", "/tokens/"),
    "audit": ("admin", "/audit/"),
    "states": ("oncall", "/states/"),
}


README_PAGES = (
    "now runs task graph timeline steps operations why inbox approval repairs repair repairs-several runbooks workflow"
    " tool workers stops policy members audit"
).split()
README_LOOKS = {"light": README_PAGES, "dark": README_PAGES, "phone": README_PAGES, "zh": ["now", "inbox", "approval"]}
README_FOLDER = Path("static/docs/console")
WEBP_QUALITY = 55


def main() -> None:
    """Read the arguments and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--data", type=Path, default=Path(".quarterdeck"))
    parser.add_argument("--out", type=Path, default=Path("build/pictures"))
    parser.add_argument("--only", nargs="*", default=[], choices=PAGES, metavar="PAGE")
    parser.add_argument("--looks", nargs="*", default=list(LOOKS), choices=LOOKS)
    parser.add_argument("--readme", action="store_true")
    asked = parser.parse_args()
    if asked.readme:
        asked.out = README_FOLDER
    passwords = _new_passwords(asked.data)
    asked.out.mkdir(parents=True, exist_ok=True)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for look in asked.looks:
            _draw(browser, asked, passwords, look)
        browser.close()


def _new_passwords(data: Path) -> dict[str, str]:
    """Return the example's people with passwords made now; nobody else knows the old ones."""
    command = [sys.executable, str(ROOT / "manage.py"), "example", "passwords"]
    environment = {**os.environ, "QUARTERDECK_DATA": str(data.resolve())}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    answer: dict[str, dict[str, str]] = json.loads(done.stdout)
    return answer["sign_ins"]


def _draw(browser: Browser, asked: argparse.Namespace, passwords: dict[str, str], look: str) -> None:
    viewport, cookies = LOOKS[look]
    windows: dict[str, Page] = {}
    for name, (person, address) in PAGES.items():
        if (asked.only and name not in asked.only) or (asked.readme and name not in README_LOOKS[look]):
            continue
        if person not in windows:
            windows[person] = _signed_in(browser, asked.url, person, passwords[person], viewport, cookies)
        page = windows[person]
        page.goto(asked.url + _address(page, asked.url, address))
        page.wait_for_selector("html[data-ready]")
        page.wait_for_timeout(600)
        file = asked.out / f"{name}-{look}.{'webp' if asked.readme else 'png'}"
        _save(page, file)
        print(file)
    for page in windows.values():
        page.context.close()


def _save(page: Page, file: Path) -> None:
    """Write what the window shows; playwright itself writes no WebP, the browser does."""
    kind = {"format": "webp", "quality": WEBP_QUALITY} if file.suffix == ".webp" else {"format": "png"}
    answer = page.context.new_cdp_session(page).send("Page.captureScreenshot", kind)
    file.write_bytes(base64.b64decode(answer["data"]))


def _signed_in(
    browser: Browser, url: str, person: str, password: str, viewport: dict[str, int], cookies: dict[str, str]
) -> Page:
    context = browser.new_context(viewport=viewport)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(f"{url}/sign-in/")
    page.fill("[name=username]", person)
    page.fill("[name=password]", password)
    page.click("button.btn-primary")
    page.wait_for_url("**/now/")
    context.add_cookies([{"name": name, "value": value, "url": url} for name, value in cookies.items()])
    return page


def _address(page: Page, url: str, address: str) -> str:
    """Fill in the first run of a status, or the first request that waits."""
    found = re.match(r"\{(\w+)(?:/([\w-]+))?\}(.*)", address)
    if found is None:
        return address
    kind, workflow, rest = found.groups()
    lists = {"request": "/inbox/", "case": "/repairs/", "task": "/tasks/"}
    path = lists.get(kind) or f"/runs/?status={kind}&workflow={workflow or ''}&within=all"
    page.goto(url + path)
    first = page.locator("tr[data-href]").first
    return (first.get_attribute("data-href") or path) + rest if first.count() else path


if __name__ == "__main__":
    main()
