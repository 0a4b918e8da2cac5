"""Messages from outside are made safe before anybody stores them (A2.7, C7.6)."""

from __future__ import annotations

import pytest

from runtime.tools.redact import LIMIT, redact, register_secret

pytestmark = pytest.mark.req("A2.7", "C7.6")


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRETabcdefgh",
        "basic SECRETabcdefgh=",
        "api_key=SECRETabc",
        '{"password": "SECRETabc"}',
        "token: SECRETabc",
        "key sk-SECRETabcdefghij",
        "postgres://user:SECRETabc@host/db",
        "-----BEGIN RSA PRIVATE KEY-----\nSECRET\n",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    assert "SECRET" not in redact(f"it failed: {text} (and so on)")


def test_what_was_handed_out_is_hidden() -> None:
    register_secret("a plain looking value")
    assert redact("echo: a plain looking value!") == "echo: [hidden]!"


def test_the_rest_stays_readable() -> None:
    text = "HTTP 422: the order #W123 has no item 'a'"
    assert redact(text) == text


def test_everything_can_be_stored() -> None:
    assert redact("a\x00b\ud800c\x1b[31m") == "a b?c [31m"
    assert len(redact("x" * 10_000)) == LIMIT
