"""Checkpoints as messages: what goes in comes out, and what is not whole is not a checkpoint."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.audit.service.checkpoints.form import PART_BYTES, About, BadCheckpoint, Finder, lines_in, messages, taken_apart


def about(name: str = "one") -> About:
    return About(checkpoint=name, layout=4, window_ms=600_000, at_ms=7, audit={0: 17})


def found(values: list[bytes]) -> Finder:
    finder = Finder()
    for offset, value in enumerate(values):
        finder.see(offset, value)
    finder.finish()
    return finder


def lines_of(values: list[bytes]) -> list[bytes]:
    return list(lines_in(message.payload for message in map(taken_apart, values) if message.kind == "rows"))


@given(st.lists(st.binary(max_size=200).filter(lambda line: b"\n" not in line)))
def test_lines_come_back(lines: list[bytes]) -> None:
    values = list(messages(about(), lines))
    (one,) = found(values).complete
    assert (one.about, one.from_offset, one.last_offset) == (about(), 0, len(values) - 1)
    assert lines_of(values) == lines


def test_a_large_line_is_cut_into_messages_of_a_bounded_size() -> None:
    line = random.Random(1).randbytes(3 * PART_BYTES).replace(b"\n", b" ")
    values = list(messages(about(), [b"small", line, b"small"]))
    assert len(values) > 4
    assert max(map(len, values)) < PART_BYTES + 200
    assert lines_of(values) == [b"small", line, b"small"]


def test_a_checkpoint_with_any_message_missing_doubled_or_changed_is_none() -> None:
    noise = [random.Random(at).randbytes(1_000).hex().encode() for at in range(1_000)]
    values = list(messages(about(), noise))
    assert len(values) > 4
    for at, value in enumerate(values):
        changed = bytearray(value)
        changed[-2 if at else 20] ^= 1
        for damaged in (
            [*values[:at], *values[at + 1 :]],
            [*values[: at + 1], *values[at:]] if at else [*values[1:], values[0]],
            [*values[:at], bytes(changed), *values[at + 1 :]],
        ):
            finder = found(damaged)
            if damaged[: len(values)] == values:  # the end came twice: the first was the end of a whole checkpoint
                continue
            assert finder.complete == [], at
            assert finder.broken


def test_two_checkpoints_whose_messages_stand_mixed_are_both_whole() -> None:
    one, other = list(messages(about("one"), [b"1"])), list(messages(about("other"), [b"2"]))
    mixed = [value for pair in zip(one, other, strict=True) for value in pair]
    assert [each.about.checkpoint for each in found(mixed).complete] == ["one", "other"]


def test_what_is_no_message_of_a_checkpoint_harms_none() -> None:
    values = list(messages(about(), [b"1"]))
    finder = found(
        [
            b"",
            b"{}\n",
            values[0],
            b"\xff\xfe\n",
            json.dumps({"checkpoint": "x", "part": 3, "kind": "rows"}).encode() + b"\n",
            *values[1:],
        ]
    )
    assert len(finder.complete) == 1
    assert len(finder.broken) == 4


def test_another_format_is_told() -> None:
    values = list(messages(about(), [b"1"]))
    values[0] = values[0].replace(b'"format": 2', b'"format": 3')
    finder = found(values)
    assert finder.complete == []
    assert "format 3" in finder.broken["one"] or "beginning" in finder.broken["one"]


def test_rows_that_end_early_are_refused() -> None:
    values = list(messages(about(), [b"1" * 1_000]))
    payload = taken_apart(values[1]).payload
    with pytest.raises(BadCheckpoint):
        list(lines_in([payload[: len(payload) // 2]]))
