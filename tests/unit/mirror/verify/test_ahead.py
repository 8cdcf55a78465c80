"""Reading a step ahead in a thread: the same items in the same order, the same errors, and no thread left behind."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.mirror.verify.read_ahead import ahead
from tests.support.processes import eventually


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "verify-reader"]


@given(st.lists(st.none() | st.integers(), max_size=20))
def test_the_items_come_in_their_order(items: list[int | None]) -> None:
    assert list(ahead(iter(items))) == items


def test_an_error_comes_behind_what_was_read_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise KeyError("gone")

    found: list[int] = []
    with pytest.raises(KeyError, match="gone"):
        found.extend(ahead(failing()))
    assert found == [1, 2]


def test_no_more_than_two_items_are_read_ahead_and_a_reader_that_is_left_ends() -> None:
    taken = []

    def endless() -> Iterator[int]:
        number = 0
        while True:
            taken.append(number)
            yield number
            number += 1

    read = ahead(endless())
    assert next(read) == 0
    eventually(lambda: len(taken) == 3, what="one waits to be handed out, one to be put")
    assert len(taken) == 3
    read.close()
    eventually(lambda: not readers(), what="the reader's end")
    assert len(taken) == 3
