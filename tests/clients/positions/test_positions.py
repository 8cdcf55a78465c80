"""Offsets that do not count records, read by clients that do not know this. Each record is read once, from any offset on; the
final position is the announced end; commits leave no lag; and no requests spin at the end.
"""

import uuid
from collections.abc import Callable

import pytest

from headrace.wire.batch.compression import Codec
from tests.support.raw_kafka import RawClient

from .asked import Reader, ReaderFailed
from .conftest import IS_OURS, Server
from .programs import KINDS
from .topics import FILLED, IN_CODECS, Topic, Values

OFFSET_FETCH = 9
IDLE_MS = 2_000
MOST_IDLE_FETCHES = 10
"""A client asks twice a second here (it waits 500 ms for data); a spinning one asks hundreds of times."""
MOST_FETCHES_A_READ = 40
ReaderOf = Callable[[str], Reader]

each_reader = pytest.mark.parametrize("name", KINDS)
readable = pytest.mark.parametrize(
    ("name", "which"),
    [(name, which) for name, kind in KINDS.items() for which in FILLED if IN_CODECS.get(which, {Codec.NONE}) <= kind.codecs],
)


@readable
def test_a_topic_is_read_whole_and_once_up_to_the_end_that_was_told(
    server: Server, reader_of: ReaderOf, name: str, which: str
) -> None:
    topic, reader = server.topic(which), reader_of(name)
    begin, end = reader.ends(topic.name)
    assert (begin, end) == (topic.begin, topic.end)
    answer = reader.read(topic.name, begin, end)
    assert answer.records == topic.records()
    assert answer.told["position"] == end


@readable
def test_reading_begins_at_the_first_record_from_any_offset_on(
    server: Server, reader_of: ReaderOf, name: str, which: str
) -> None:
    topic, reader = server.topic(which), reader_of(name)
    wrong = []
    for what, offset in topic.starts().items():
        fetches = server.fetched(topic)[0]
        try:
            answer = reader.read(topic.name, offset, topic.end)
        except ReaderFailed as failure:
            wrong.append(f"{what}, {offset}: {failure}")
            continue
        if answer.records != topic.records(offset):
            wrong.append(f"{what}, {offset}: {_shortly(answer.records)} where {_shortly(topic.records(offset))} was due")
        if answer.told["position"] != topic.end:
            wrong.append(f"{what}, {offset}: ends at {answer.told['position']}, not at {topic.end}")
        if (fetches := server.fetched(topic)[0] - fetches) > MOST_FETCHES_A_READ:
            wrong.append(f"{what}, {offset}: {fetches} fetches")
    assert not wrong, "\n".join(wrong)


@each_reader
@pytest.mark.parametrize("first", [1, 2, 30, 57])
def test_a_group_goes_on_where_it_stopped_and_has_no_lag_when_all_is_read(
    server: Server, reader_of: ReaderOf, name: str, first: int
) -> None:
    topic, reader, group = server.topic("sizes"), reader_of(name), f"g-{uuid.uuid4().hex[:8]}"
    begun = reader.group(topic.name, group, first, topic.end)
    rest = reader.group(topic.name, group, 1_000, topic.end)
    again = reader.group(topic.name, group, 1_000, topic.end)
    assert len(begun.records) == first
    assert begun.records + rest.records == topic.records()
    assert again.records == []
    assert committed(server, topic, group) == topic.end
    for answer in (rest, again):
        assert answer.told.get("committed", topic.end) == topic.end
        assert answer.told.get("lag", 0) == 0


if IS_OURS:  # Apache Kafka has no page that counts fetches

    @each_reader
    @pytest.mark.parametrize("what", ["the log's begin", "the log's end", "inside the last gap", "the last record"])
    def test_a_reader_at_the_end_is_quiet(server: Server, reader_of: ReaderOf, name: str, what: str) -> None:
        topic, reader = server.topic("sizes"), reader_of(name)
        from_ = topic.start(what)
        before = server.fetched(topic)
        seen: list[tuple[int, int]] = []
        look = lambda: seen.append(server.fetched(topic))  # noqa: E731
        answer = reader.idle(topic.name, from_, topic.end, IDLE_MS, idle=look, over=look)
        (fetches, size), (fetches_after, size_after) = seen
        assert answer.records == topic.records(from_)
        assert fetches - before[0] <= MOST_FETCHES_A_READ
        assert fetches_after - fetches <= MOST_IDLE_FETCHES
        assert size_after == size, "records that the client has were sent again"


@each_reader
def test_a_reader_at_the_end_gets_what_is_appended_then(server: Server, reader_of: ReaderOf, name: str) -> None:
    topic, reader, values = server.new("sizes"), reader_of(name), Values()
    from_, to = topic.batches[-1].base_offset, topic.end

    def append() -> None:
        for codec in (Codec.NONE, Codec.GZIP, Codec.NONE):
            topic.append(values(3), codec)

    answer = reader.idle(topic.name, from_, to, IDLE_MS, idle=append)
    assert answer.records == topic.records(from_)


def committed(server: Server, topic: Topic, group: str) -> int:
    """Return the offset that the server has for the group."""
    with RawClient(server.side.port) as client:
        wanted = {"group_id": group, "topics": [{"name": topic.name, "partition_indexes": [0]}]}
        (found,) = client.ask(OFFSET_FETCH, 5, wanted).topics
    return int(found.partitions[0].committed_offset)


def _shortly(records: list[tuple[int, bytes]]) -> str:
    return f"{len(records)} records from {records[0][0]} to {records[-1][0]}" if records else "no record"
