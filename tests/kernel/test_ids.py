"""Ids are UUIDv7: they sort by the time they were made, and tell it, which partitions rely on."""

from __future__ import annotations

import time
import uuid

import pytest

from runtime.kernel.ids import parse_uuid, uuid7


def test_ids_are_version_7_and_sort_as_they_were_made():
    made = [uuid7() for _ in range(20_000)]
    assert {(type(one), one.version, one.variant) for one in made} == {(uuid.UUID, 7, uuid.RFC_4122)}
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_an_id_tells_when_it_was_made():
    before = time.time_ns() // 1_000_000
    told = int.from_bytes(uuid7().bytes[:6])
    assert before <= told <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("text", ["", "x", "0" * 31, "0" * 33, "01a22e2f-3f9c-77dc-ba18-899fe782382g", None, 7])
def test_what_is_no_id_is_none(text):
    assert parse_uuid(text) is None


def test_an_id_is_read_in_every_form_it_is_written_in():
    one = uuid7()
    assert {parse_uuid(text) for text in (str(one), one.hex, str(one).upper(), one.urn)} == {one}
