"""What of a run's page is loaded by itself: a step's drawer, which stands beside its tab, and the head."""

from __future__ import annotations

import re
from html import unescape

import pytest

from runtime.kernel.canonical import digest
from runtime.worker.complete import complete
from runtime.worker.work import Report
from tests.support.pages import Reader, Scene
from tests.support.specs import tool, workflow


def links(page: str, tag: str) -> list[str]:
    """Return the addresses of the links whose opening tag holds ``tag``."""
    found = re.findall(rf"<a [^>]*{tag}[^>]*>", page)
    return [unescape(one) for link in found for one in re.findall(r' href="([^"]*)"', link)]


@pytest.mark.parametrize(
    ("tab", "query"),
    [("steps/", "status=queued"), ("timeline/", "sort=longest"), ("events/", "after=1"), ("why/", "node=b"), ("", "")],
)
def test_a_drawer_loaded_alone_leads_back_to_its_tab(made: Scene, admin: Reader, tab: str, query: str):
    own = f"/runs/{made.runs['retries']}/"
    page = f"{own}{tab}" + (f"?{query}" if query else "")
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}{'&' if query else '?'}step=b&part=why"}
    answer = admin.client.get(f"{own}drawer/a/", headers=headers)
    assert answer.status_code == 200
    assert "HX-Push-Url" not in answer, "the link that asks says what the address becomes"
    shown = answer.content.decode()
    assert links(shown, "data-drawer-close") == [page]
    base = f"{own}{tab}?" + (f"{query}&" if query else "")
    pushed = [unescape(one) for one in re.findall(r'hx-push-url="([^"]*)"', shown)]
    assert pushed == links(shown, "hx-push-url")
    parts = ("overview", "attempts", "content", "events", "why")
    assert pushed[: len(parts)] == [f"{base}step=a&part={part}" for part in parts]


def test_a_page_with_an_open_drawer_closes_to_itself(made: Scene, admin: Reader):
    own = f"/runs/{made.runs['retries']}/"
    shown = admin.get(f"{own}events/?after=1&step=a&part=why")
    assert links(shown, "data-drawer-close") == [f"{own}events/?after=1"]
    (opened, *_more) = links(shown, 'class="link" href="[?]')
    assert opened == "?after=1&step=a", "from the list a step opens with its overview"


@pytest.mark.parametrize("page", ["http://testserver/inbox/?x=1", "https://elsewhere.example/", "", "::"])
def test_no_address_of_another_page_gets_into_the_drawer(made: Scene, admin: Reader, page: str):
    own = f"/runs/{made.runs['retries']}/"
    headers = {"HX-Request": "true", "HX-Current-URL": page}
    shown = admin.client.get(f"{own}drawer/a/", headers=headers).content.decode()
    assert links(shown, "data-drawer-close") == [own]


@pytest.mark.parametrize("tab", ["steps", "timeline", "events", "why", "operations"])
def test_every_link_to_a_step_says_what_the_address_becomes(made: Scene, admin: Reader, tab: str):
    shown = admin.get(f"/runs/{made.runs['retries']}/{tab}/")
    for link in re.findall(r"<a [^>]*hx-target=\"#drawer\"[^>]*>", shown):
        address = re.search(r' href="([^"]*)"', link)
        pushed = re.search(r'hx-push-url="([^"]*)"', link)
        assert address is not None
        assert pushed is not None, link
        assert pushed[1] == address[1]


def test_the_head_comes_alone_for_a_page_that_is_live(made: Scene, admin: Reader):
    run_id = made.runs["retries"]
    path = f"/runs/{run_id}/?step=a"
    whole = admin.get(path)
    alone = admin.get(path, headers={"HX-Request": "true", "X-Refresh": "head"})
    assert f'data-seq="{made.engine.run(run_id).seq}"' in alone
    for part in ('class="tabs"', 'class="actbar', "Cancel run", 'class="five"'):
        assert part in alone, part
    for part in ("<html", "lanes", 'class="drawer-h"', 'class="side"'):
        assert part in whole, part
        assert part not in alone, part
    Reader(made.tenant, "viewer").get(f"/runs/{run_id}/audit/", 403, headers={"X-Refresh": "head"})


@pytest.mark.req("A9.5")
def test_the_drawer_shows_what_a_reading_step_was_called_with_if_it_has_the_hash(made: Scene, admin: Reader):
    engine = made.engine
    run_id = engine.submit(workflow({**tool("a"), "input": {"of": {"$": "input.of"}}}, tool("b", "a")), {"of": "W-77"})
    claimed = next(one for one in engine.claim() if one.run_id == run_id)
    report = Report(claimed, "succeeded", output=b"{}", output_sha256=digest(b"{}"))
    report.input_sha256 = digest(b'{"of":"W-77"}')
    complete(made.tenant.id, [report])
    shown = admin.get(f"/runs/{run_id}/?step=a&part=content")
    assert "Made again from what came before it" in shown
    assert "W-77" in shown
    other = admin.get(f"/runs/{made.runs['done']}/?step=a&part=content")
    assert "only its hash was kept" in other
    hidden = Reader(made.tenant, "viewer").get(f"/runs/{run_id}/?step=a&part=content")
    assert "W-77" not in hidden
