"""What the dialogs and events of a run say of a step is true of its state."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dashboard.presenters import consequences, states
from runtime.actions.runs import pause_run
from tests.support.operations import send
from tests.support.pages import Reader, Scene, node


def graph_of(**statuses: str) -> dict[str, Any]:
    """Return a graph of steps in these states without edges."""
    steps = {
        name: {"status": status, "cause": None, "hold_requested": False, "superseded": False, "kind": "tool"}
        for name, status in statuses.items()
    }
    nodes = [{"id": name, "title": name, "kind": "tool", "step": step} for name, step in steps.items()]
    return {"nodes": nodes, "edges": []}


RUN = {"status": "running", "paused": False, "cancel_requested": False}
STEPS = {"q": "queued", "r": "running", "h": "hold", "u": "unknown"}


@pytest.mark.req("B3.1")
@pytest.mark.parametrize(
    ("verb", "becomes"),
    [
        ("pause", ["is parked", "goes on to its safe point", "stays on hold", "stays unknown"]),
        ("resume", ["may go on", "goes on", "stays on hold", "stays unknown"]),
        ("cancel", ["is skipped", "is stopped", "is skipped", "is ended"]),
    ],
)
def test_a_dialog_says_of_each_state_what_becomes_of_it(verb: str, becomes: list[str]):
    told = consequences.of_run(verb, {**RUN, "paused": verb == "resume"}, graph_of(**STEPS), []).follows
    assert [title for _state, title, _text in told] == list(STEPS)
    assert [text.partition(";")[0] for _state, _title, text in told] == becomes


def test_one_step_is_told_in_the_singular():
    for count, text in ((1, "1 step that has not started"), (2, "2 steps that have not started")):
        graph = graph_of(**{f"w{n}": "waiting" for n in range(count)})
        [(_state, words, becomes)] = consequences.of_run("cancel", RUN, graph, []).follows
        assert (words, becomes) == (text, "is skipped" if count == 1 else "are skipped")


def test_every_safe_button_is_a_sentence():
    assert consequences.way_out("cancel", "needs_attention", "run") == "Leave it as it is"
    assert consequences.way_out("pause", "running", "run") == "Keep running"


def test_a_held_step_that_is_ready_is_parked_and_says_so(made: Scene, admin: Reader):
    step = made.engine.step(made.runs["asks"], "ask")
    run_id = made.engine.submit({"format": "quarterdeck/1", "name": "one", "nodes": [node("only")]}, {})
    queued = made.engine.step(run_id, "only")
    assert (step.status, queued.status) == ("hold", "queued")
    address = f"/steps/{queued.id}/verbs/hold/"
    page = admin.get(address)
    assert '<span class="badge">parked</span>' in page
    admin.post(address, {**admin.form(page), "reason": "not yet"})
    assert '<span class="badge">parked</span>' in admin.get(f"/runs/{run_id}/steps/")
    pause_run(actor=made.engine.actor, run_id=run_id, reason="the night")
    assert "only<small>stays" not in admin.get(f"/runs/{run_id}/verbs/resume/")


def test_an_operations_events_carry_no_badge_and_their_own_words(made: Scene, admin: Reader):
    engine = made.engine
    run_id = engine.submit({"format": "quarterdeck/1", "name": "one", "nodes": [node("only")]}, {})
    (claimed,) = [one for one in engine.claim() if one.run_id == run_id]
    send(engine, claimed, "refund:1")
    engine.report(claimed, "failed", operation_status="refused", error={"class": "business", "message": "no"})
    word = states.cause_word("operation")
    for address in (f"/runs/{run_id}/events/", f"/runs/{run_id}/?step=only&part=events"):
        page = admin.get(address)
        assert "refused" in page
        assert f'<span class="badge">{word}</span>' not in page
        assert "an effect is open" not in page
    rows = re.findall(r"<tr id=\"seq-.*?</tr>", admin.get(f"/runs/{run_id}/events/"), re.DOTALL)
    told = next(row for row in rows if "OPERATION_INTENDED" in row)
    assert states.word("intended", "operation") in told
    assert states.event_subject({"type": "OPERATION_SENT", "node": "a"}) == "operation"
