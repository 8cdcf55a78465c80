"""The messages about damage between replicas, and DescribeDamage: what is written is read, and nothing else is taken."""

from uuid import UUID

import pytest

from headrace.broker.log import BadRange, RangeDigest
from headrace.broker.log.segment.range_digest import BatchDigest
from headrace.broker.replicas import scrub_messages as messages
from headrace.broker.replicas.scrub_messages import Compare, Kind, Read, State
from headrace.wire.errors import MalformedFrame
from headrace.wire.messages import describe_damage
from headrace.wire.messages.describe_damage import Response, Row

KEY = (UUID(int=7), 3)
ASKED = [
    Compare(Kind.DIGEST, KEY, 4, 10, 2**40, sum=b"s" * 16),
    Compare(Kind.DAMAGED, KEY, 4, 10, 20, reason="its CRC fails: ä"),
    Compare(Kind.LEAD, KEY, 4, 0, 0),
]
DIGEST = RangeDigest((BatchDigest(0, 10, b"h" * 21), BatchDigest(10, 30, b"g" * 21)), (BadRange(30, 40, "its CRC fails"),))
ROWS = (
    Row(describe_damage.Kind.DAMAGED, "events", 2, 10, 20, 1_700_000_000_000, 0, "its CRC fails"),
    Row(describe_damage.Kind.REPAIRED, "ereignisse-ä", 0, 10, 20, 5, 77),
)


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: one.kind.name)
def test_a_comparison_is_read_as_it_was_written(asked: Compare) -> None:
    assert messages.decode_compare(memoryview(messages.encode_compare(asked))) == asked


def test_answers_are_read_as_they_were_written() -> None:
    assert messages.decode_compared(messages.encode_state(State.SAME)) == (State.SAME, None)
    assert messages.decode_compared(messages.encode_digest(DIGEST)) == (State.DIFFERENT, DIGEST)
    asked = Read(KEY, 5, 2**50)
    assert messages.decode_read(memoryview(messages.encode_read(asked))) == asked


def test_describe_damage_is_read_as_it_was_written() -> None:
    response = Response(0, 3, 1_700_000_000_001, ROWS)
    assert describe_damage.decode_response(memoryview(describe_damage.encode_response(response))) == response
    assert describe_damage.decode_request(describe_damage.encode_request(-1)) == -1


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: one.kind.name)
def test_a_cut_message_is_refused(asked: Compare) -> None:
    whole = messages.encode_compare(asked)
    for size in range(len(whole)):
        with pytest.raises(MalformedFrame):
            messages.decode_compare(memoryview(whole[:size]))
    for size in range(len(digest := messages.encode_digest(DIGEST))):
        with pytest.raises(MalformedFrame):
            messages.decode_compared(digest[:size])
    rows = describe_damage.encode_response(Response(0, 3, 4, ROWS))
    for size in range(len(rows)):
        with pytest.raises(MalformedFrame):
            describe_damage.decode_response(memoryview(rows[:size]))
    for wrong in (b"", b"1234567", b"123456789"):
        with pytest.raises(MalformedFrame):
            describe_damage.decode_request(wrong)
        with pytest.raises(MalformedFrame):
            messages.decode_read(memoryview(wrong))


def test_more_rows_than_are_taken_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MOST_ROWS", 1)
    monkeypatch.setattr(describe_damage, "MOST_ROWS", 1)
    with pytest.raises(MalformedFrame, match="2 rows"):
        messages.decode_compared(messages.encode_digest(DIGEST))
    with pytest.raises(MalformedFrame, match="2 rows"):
        describe_damage.decode_response(memoryview(describe_damage.encode_response(Response(0, 3, 4, ROWS))))
