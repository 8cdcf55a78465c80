"""Counts beyond every measure are refused, however long the message; in what is read by hand and in what kio reads."""

from collections.abc import Callable

import pytest

from headrace.wire import primitives
from headrace.wire.errors import MalformedFrame
from headrace.wire.messages import control
from headrace.wire.varint import unsigned


class Endless(bytes):
    """A message that says it is a gigabyte long, so that no count is too much for its length."""

    def __len__(self) -> int:
        return 1 << 30


@pytest.mark.parametrize("flexible", [False, True])
def test_an_array_has_a_million_elements_at_most(flexible: bool) -> None:
    def counted(number: int) -> int:
        return primitives.read_count(Endless(primitives.count(number, flexible=flexible)), 0, flexible=flexible, each=1)[0]

    assert counted(primitives.MOST_COUNT) == 1_000_000
    with pytest.raises(MalformedFrame, match="1000001 elements"):
        counted(primitives.MOST_COUNT + 1)


def tags(number: int) -> bytes:
    return unsigned(number) + b"".join(unsigned(1_000 + tag) + b"\x00" for tag in range(number))


@pytest.mark.parametrize("read", [primitives.read_tags, primitives.skip_tags])
def test_a_structure_has_ten_thousand_tagged_fields_at_most(read: Callable[[memoryview, int], object]) -> None:
    read(memoryview(tags(primitives.MOST_TAGS)), 0)
    with pytest.raises(MalformedFrame, match="10001 tagged fields"):
        read(memoryview(tags(primitives.MOST_TAGS + 1)), 0)


def test_too_many_tagged_fields_are_refused_before_kio_sees_them() -> None:
    with pytest.raises(MalformedFrame, match="10001 tagged fields"):
        control.decode_request(18, 3, b"\x02a\x021" + tags(primitives.MOST_TAGS + 1))


def test_a_control_message_with_too_long_an_array_is_refused_before_its_elements_are_read() -> None:
    """The bytes are there; the walk must not begin."""
    with pytest.raises(MalformedFrame, match="1000001 elements"):
        control.decode_response(15, 0, primitives.count(primitives.MOST_COUNT + 1, flexible=False) + bytes(30_000_000))
