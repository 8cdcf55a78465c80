"""Blocks cut into lines, and lines joined to records."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.tail.framing import frame
from headrace.agent.tail.multiline import Multiline, join

LIMIT = 8


def framed(block: bytes, *, inside: bool = False, rest: bool = False) -> tuple[list[bytes], int, bool]:
    found = frame(block, limit_bytes=LIMIT, is_inside_long_line=inside, takes_rest=rest)
    return found.lines, found.consumed, found.is_inside_long_line


@pytest.mark.parametrize(
    ("block", "inside", "rest", "expected"),
    [
        (b"", False, False, ([], 0, False)),
        (b"a\n\nb\n", False, False, ([b"a", b"", b"b"], 5, False)),
        (b"a\nbc", False, False, ([b"a"], 2, False)),
        (b"a\nbc", False, True, ([b"a", b"bc"], 4, False)),
        (b"123456789", False, False, ([b"123456789"], 9, True)),
        (b"123456789", False, True, ([b"123456789"], 9, False)),
        (b"rest\na\n", True, False, ([b"a"], 7, False)),
        (b"rest", True, False, ([], 4, True)),
        (b"rest", True, True, ([], 4, False)),
        (b"\x00\x00a\n", False, False, ([b"a"], 4, False)),
        (b"a\n" + b"\x00" * 20, False, False, ([b"a"], 2, False)),
    ],
)
def test_a_block_is_cut_into_lines(block: bytes, inside: bool, rest: bool, expected: object) -> None:
    assert framed(block, inside=inside, rest=rest) == expected


def test_lines_that_are_too_long_are_named() -> None:
    found = frame(b"ok\n123456789\nok\n", limit_bytes=LIMIT, is_inside_long_line=False, takes_rest=False)
    assert (found.lines, found.too_long) == ([b"ok", b"123456789", b"ok"], {1})


@given(
    st.lists(st.sampled_from([b"a", b"bb\n", b"\n", b"0123456789abc", b"\r\n"]), max_size=30).map(b"".join),
    st.lists(st.integers(1, 12), min_size=1),
)
def test_in_whatever_pieces_a_file_is_read_its_lines_are_the_same(content: bytes, sizes: list[int]) -> None:
    lines: list[bytes] = []
    at, inside, turn = 0, False, 0
    while at < len(content):
        size = sizes[turn % len(sizes)]
        turn += 1
        found = frame(
            content[at : at + size], limit_bytes=LIMIT, is_inside_long_line=inside, takes_rest=at + size >= len(content)
        )
        if not found.consumed:
            size = max(size, LIMIT + 1)
            found = frame(
                content[at : at + size], limit_bytes=LIMIT, is_inside_long_line=inside, takes_rest=at + size >= len(content)
            )
        assert found.consumed
        lines += [line[:LIMIT] for line in found.lines]
        # The same range again, with what its end says, gives the same.
        again = frame(
            content[at : at + found.consumed],
            limit_bytes=LIMIT,
            is_inside_long_line=inside,
            takes_rest=not found.is_inside_long_line,
        )
        assert (again.lines, again.too_long, again.consumed) == (found.lines, found.too_long, found.consumed)
        at += found.consumed
        inside = found.is_inside_long_line
    expected = content.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert lines == [line[:LIMIT] for line in expected]


RULE = Multiline(start=re.compile(rb"^\S"), most_lines=3, most_bytes=20)


def joined(lines: list[bytes], *, last: bool = False, alone: frozenset[int] = frozenset()) -> tuple[list[bytes], int]:
    records, count = join(lines, RULE, alone=alone, takes_last=last)
    return [b"|".join(lines[one.first : one.behind]) for one in records], count


def test_lines_belong_to_the_one_that_begins_a_record() -> None:
    assert joined([b"a", b" b", b"c", b" d"]) == ([b"a| b"], 2)
    assert joined([b"a", b" b", b"c", b" d"], last=True) == ([b"a| b", b"c| d"], 4)
    assert joined([b" b", b"c"], last=True) == ([b" b", b"c"], 2)


def test_a_record_has_at_most_so_many_lines_and_bytes() -> None:
    assert joined([b"a", b" b", b" c", b" d"], last=True) == ([b"a| b| c", b" d"], 4)
    assert joined([b"a", b" " * 15, b" " * 9], last=True) == ([b"a|" + b" " * 15, b" " * 9], 3)
    assert joined([b"a", b" b", b" c"]) == ([b"a| b| c"], 3)


def test_a_line_that_is_too_long_is_a_record_of_its_own() -> None:
    assert joined([b"a", b" long", b" c"], last=True, alone=frozenset({1})) == ([b"a", b" long", b" c"], 3)
    assert joined([b"a", b" long"], alone=frozenset({1})) == ([b"a", b" long"], 2)
