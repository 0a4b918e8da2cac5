"""Columns as binary arrays: what goes out is what PostgreSQL reads, however long the column is."""

from __future__ import annotations

import struct

import pytest

from runtime.store import arrays as module
from runtime.store.arrays import arrays


def decoded(column: bytes, code: str, size: int) -> list[int]:
    """Return the numbers of an encoded column without nulls, reading it by the protocol's description."""
    dimensions, has_null, _element, count, first = struct.unpack_from("!iiiii", column)
    assert (dimensions, has_null, first) == (1, 1, 1)
    items = list(struct.iter_unpack(f"!i{code}", column[20:]))
    assert len(items) == count
    assert {length for length, _number in items} == {size}
    return [number for _length, number in items]


@pytest.mark.parametrize("count", [2, 1024, 1025, 5000])
@pytest.mark.parametrize(("letter", "code", "size"), [("i", "i", 4), ("l", "q", 8)])
def test_numbers_survive(letter, code, size, count):
    numbers = [index - 7 for index in range(count)]
    [column] = arrays(letter, [(number,) for number in numbers])
    assert decoded(column, code, size) == numbers


def test_the_lengths_of_large_columns_are_not_remembered():
    module._numbers.cache_clear()
    for count in range(2000, 2100):
        arrays("i", [(index,) for index in range(count)])
    assert module._numbers.cache_info().currsize == 0


@pytest.mark.parametrize("count", [1, 2, 2000])
def test_a_number_that_does_not_fit_is_refused(count):
    rows = [(index,) for index in range(count - 1)] + [(2**31,)]
    with pytest.raises(ValueError, match="does not fit"):
        arrays("i", rows)
