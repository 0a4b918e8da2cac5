"""Subjects and headers of mails: what tells one from another alike, and what keeps those about one thing together."""

from __future__ import annotations

import uuid

import pytest

from runtime.kernel.messages import subject_of, thread_headers

ID = uuid.UUID("0199a000-0000-7000-8000-0000abcd1234")


@pytest.mark.parametrize(
    ("pieces", "subject"),
    [
        (("Trip 4711", None), "Approval needed: Pay out · Trip 4711 · abcd1234"),
        (("", None), "Approval needed: Pay out · abcd1234"),
        (("Pay out", "order\n 7"), "Approval needed: Pay out · order 7 · abcd1234"),
        (("x" * 70,), f"Approval needed: Pay out · {'x' * 59}… · abcd1234"),
    ],
)
def test_a_subject_says_what_is_not_said_yet_in_one_line(pieces, subject):
    assert subject_of("Approval needed: Pay out", ID, *pieces) == subject


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://ops.example.com:8443/console/", "ops.example.com"),
        ("http://127.0.0.1:8000/", "127.0.0.1"),
        ("http://[::1]:8000/", "[::1]"),
        ("/", "localhost"),
    ],
)
def test_ids_of_mails_have_the_form_that_mailboxes_read(url, host):
    assert thread_headers("m-1", "case.7", url) == {
        "Message-ID": f"<m-1@{host}>",
        "In-Reply-To": f"<case.7@{host}>",
        "References": f"<case.7@{host}>",
    }
    assert thread_headers("m-1", "", url) == {"Message-ID": f"<m-1@{host}>"}
