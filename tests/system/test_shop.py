"""The shop as the proof's outside world: it does per call what it is told, and its books say what really happened."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.request import Request, urlopen

import pytest

from dashboard.example.shop import RECEIPT
from dashboard.example.tools import contracts
from tests.support.shop import Shop
from tests.support.workers import until

pytestmark = pytest.mark.req("C8.1")


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with Shop(tmp_path_factory.mktemp("shop")) as shop:
        yield shop


@pytest.fixture
def order(shop) -> Iterator[str]:
    yield f"O-{uuid.uuid4().hex[:8]}"
    shop.behave()


def refund(shop: Shop, order_id: str, key: str = "", timeout: float = 10.0, **headers: str) -> Any:
    body = json.dumps({"order_id": order_id, "amount": "10.00"}).encode()
    wanted = {"Idempotency-Key": key or f"key-{order_id}", **headers}
    with urlopen(Request(f"{shop.url}/refunds", data=body, headers=wanted), timeout=timeout) as answer:
        return json.load(answer)


def refused(shop: Shop, order_id: str, **headers: str) -> urllib.error.HTTPError:
    with pytest.raises(urllib.error.HTTPError) as caught:
        refund(shop, order_id, **headers)
    return caught.value


def test_it_pays_once_per_key_unless_told_not_to_look(shop, order):
    assert refund(shop, order) == refund(shop, order)
    assert len(shop.effects(order, "refunds")) == 1
    shop.tell("refund", order, deduplicate=False)
    refund(shop, order)
    assert shop.counts()[f"refunds:{order}"] == 2


def test_what_it_did_has_its_number_in_the_head_of_the_answer(shop, order):
    body = json.dumps({"order_id": order, "amount": "10.00"}).encode()
    asked = Request(f"{shop.url}/refunds", data=body, headers={"Idempotency-Key": f"key-{order}"})
    with urlopen(asked, timeout=10) as answer:
        assert answer.headers[RECEIPT] == json.load(answer)["refund_id"]
    with urlopen(f"{shop.url}/refunds?key=key-{order}", timeout=10) as answer:
        assert RECEIPT not in answer.headers, "a question does nothing"
    writing = [
        one["config"].get("reference_header") for one in contracts(shop.port, 1) if one["side_effect"] == "write"
    ]
    assert set(writing) == {RECEIPT}


@pytest.mark.parametrize(("when", "effects"), [("before", 0), ("after", 1)])
def test_it_drops_the_connection_before_or_after_it_pays(shop, order, when, effects):
    shop.tell("refund", order, **{when: "drop"})
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        refund(shop, order)
    assert len(shop.effects(order)) == effects
    refund(shop, order)
    assert len(shop.effects(order)) == 1


@pytest.mark.parametrize(("when", "effects"), [("before", 0), ("after", 1)])
def test_it_hangs_before_or_after_it_pays_until_it_is_let_go(shop, order, when, effects):
    rule = shop.tell("refund", order, **{when: "hang"})
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(refund, shop, order)
        until(lambda: shop.hits(rule), 5, "the call")
        if effects:
            until(lambda: shop.effects(order), 5, "the effect")
        assert (len(shop.effects(order)), answer.done()) == (effects, False)
        shop.release(rule)
        assert answer.result(5)["status"] == "paid"
    assert len(shop.effects(order)) == 1


def test_it_swallows_a_call(shop, order):
    rule = shop.tell("refund", order, before="swallow")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(refund, shop, order)
        until(lambda: shop.hits(rule), 5, "the call")
        shop.release(rule)
        assert isinstance(answer.exception(5), (ConnectionError, http.client.HTTPException))
    assert shop.effects(order) == []
    assert [one["to"] for one in shop.calls(order)] == ["refund"]


def test_it_answers_what_it_is_told(shop, order):
    shop.tell("refund", order, before="answer", status=429, retry_after=2)
    problem = refused(shop, order)
    assert (problem.code, problem.headers["retry-after"], shop.effects(order)) == (429, "2", [])
    shop.tell("refund", order, after="answer", status=500)
    assert (refused(shop, order).code, len(shop.effects(order))) == (500, 1)
    shop.tell("refund", order, after="garbage")
    with pytest.raises(ValueError, match="Expecting value"):
        refund(shop, order)


def test_an_effect_may_hide_from_queries(shop, order):
    shop.tell("refund", order, hidden_queries=1)
    refund(shop, order)
    answers = [shop.ask(f"/refunds?key=key-{order}")["found"] for _ in range(3)]
    assert answers == [False, True, True]
    shop.tell("query", None, before="answer", status=501)
    with pytest.raises(urllib.error.HTTPError):
        shop.ask(f"/refunds?key=key-{order}")


def test_it_pays_a_part_and_the_rest_when_asked(shop, order):
    shop.tell("refund", order, partial=True)
    half = refund(shop, order)
    assert (half["status"], half["amount"], half["asked"]) == ("partial", "5.00", "10.00")
    assert shop.ask(f"/orders/{order}")["refunded"] == "5.00"
    assert shop.ask(f"/refunds/{half['refund_id']}/finish", {})["amount"] == "10.00"
    assert shop.ask(f"/orders/{order}")["refunded"] == "10.00"


@pytest.mark.req("C2.9")
def test_it_refuses_an_older_epoch_when_it_looks_at_epochs(shop, order):
    shop.tell("refund", order, times=None, check_epoch=True, deduplicate=False)
    refund(shop, order, **{"X-Quarterdeck-Epoch": "3"})
    assert refused(shop, order, **{"X-Quarterdeck-Epoch": "2"}).code == 409
    assert len(shop.effects(order)) == 1
    refund(shop, order, **{"X-Quarterdeck-Epoch": "4"})
    assert len(shop.effects(order)) == 2


def test_it_calls_back_twice_and_late(shop, order):
    heard: list[dict[str, Any]] = []

    class Ear(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

    ear = HTTPServer(("127.0.0.1", 0), Ear)
    threading.Thread(target=ear.serve_forever, daemon=True).start()
    try:
        shop.tell("refund", order, callbacks=2, callback_s=0.2)
        started = time.monotonic()
        url = f"http://127.0.0.1:{ear.server_address[1]}/here"
        answer = refund(shop, order, **{"X-Quarterdeck-Callback": url, "X-Quarterdeck-Callback-Token": "t"})
        until(lambda: len(heard) == 2, 5, "two callbacks")
        assert time.monotonic() - started >= 0.2
    finally:
        ear.shutdown()
        ear.server_close()
    assert heard[0] == heard[1]
    assert (heard[0]["result"], heard[0]["token"]) == (answer, "t")


def test_its_books_outlive_it_and_what_was_cut_off_was_never_written(shop, order):
    refund(shop, order)
    before = shop.effects(order)
    shop.kill()
    with shop.books_file.open("a") as books:
        books.write('{"kind": "refunds", "key": "half')
    shop.start()
    assert shop.effects(order) == before
    refund(shop, f"{order}-2")
    shop.kill()
    shop.start()
    assert (len(shop.effects(order)), len(shop.effects(f"{order}-2"))) == (1, 1)


def test_a_rule_it_does_not_understand_is_refused(shop, order):
    for rule in ({"befor": "hang"}, {"to": "everything"}, {"after": "swallow"}):
        with pytest.raises(urllib.error.HTTPError) as caught:
            shop.tell(**{"order_id": order, **rule})
        assert caught.value.code == 400
