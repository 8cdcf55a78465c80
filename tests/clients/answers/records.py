"""Sequences about records: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId."""

import struct
from collections.abc import Iterator
from typing import Any

from headrace.wire.batch.compression import Codec
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.messages import fetch, produce
from tests.clients.answers.plain import Table
from tests.clients.answers.sequence import Step, about
from tests.clients.answers.side import LIST_OFFSETS, Side, list_offsets
from tests.support.raw_kafka import batch, produce_body

DELETE_RECORDS, INIT_PRODUCER_ID, LEADER_EPOCH = 21, 22, 23
SPECIAL_TIMES = (-1, -2, -3, -4, -5, -6, -7)


def patched(records: bytes, at: int, layout: str, value: int) -> bytes:
    """Return the batch with one field changed and its old CRC."""
    size = struct.calcsize(layout)
    return records[:at] + struct.pack(layout, value) + records[at + size :]


def sealed(records: bytes) -> bytes:
    """Return the batch with the CRC of its bytes."""
    return records[:17] + struct.pack(">I", crc32c(records[21:])) + records[21:]


@about(produce.API_KEY)
def produce_faults(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a", 1, {"max.message.bytes": "2000"})

    def ask(records: bytes | None, name: str = topic, **words: Any) -> Table:
        body = produce_body(name, records, version=version, **words)
        answer = side.ask_raw(produce.API_KEY, version, body, lambda answer: produce.decode_response(version, answer))
        # Kafka's error messages are left out, except those of single records. Offsets get their names from `fill`, not here.
        return {path: value for path, value in answer.items() if not path.endswith(("base_offset", "error_message"))} | {
            "has an offset": any(value != -1 for path, value in answer.items() if path.endswith("base_offset"))
        }

    good = batch(b"value")
    yield "one", ask(good)
    yield "acks all", ask(good, acks=-1)
    yield "acks 2", ask(good, acks=2)
    yield "acks -2", ask(good, acks=-2)
    yield "unknown topic", ask(good, f"{own}-nothing")
    yield "unknown partition", ask(good, partition=1)
    yield "partition below 0", ask(good, partition=-1)
    yield "bad names", ask(good, "a b")
    yield "nameless", ask(good, "")
    if version == produce.MAX_VERSION:
        yield "null", ask(None)
    yield "no bytes", ask(b"")
    yield "too large", ask(batch(b"v" * 3000))
    yield "too large to an unknown topic", ask(batch(b"v" * 3000), f"{own}-nothing")
    yield "bad CRC", ask(patched(good, 17, ">I", 1))
    yield "bad CRC and acks 2", ask(patched(good, 17, ">I", 1), acks=2)
    for magic in (0, 1, 3, 127):
        yield f"magic {magic}", ask(patched(good, 16, ">b", magic))
    yield "cut", ask(good[:-1])
    yield "only a header", ask(good[:61])
    yield "half a header", ask(good[:30])
    yield "few bytes", ask(good[:5])
    yield "garbage behind", ask(good + b"xx")
    yield "two batches", ask(good + good)
    yield "length below 0", ask(patched(good, 8, ">i", -1))
    yield "length too long", ask(patched(good, 8, ">i", 5000))
    yield "base offset not 0", ask(patched(good, 0, ">q", 5))
    yield "leader epoch set", ask(patched(good, 12, ">i", 7))
    empty = sealed(patched(patched(good[:61], 8, ">i", 49), 57, ">i", 0))
    yield "no records", ask(empty)
    yield "no records, last offset -1", ask(sealed(patched(empty, 23, ">i", -1)))
    for count in (2, 0, -1):
        yield f"claims {count} records", ask(sealed(patched(good, 57, ">i", count)))
    yield "last offset delta wrong", ask(sealed(patched(good, 23, ">i", 5)))
    yield "last offset delta below 0", ask(sealed(patched(good, 23, ">i", -1)))
    yield "transactional", ask(sealed(patched(good, 21, ">h", 0x10)))
    yield "control", ask(sealed(patched(good, 21, ">h", 0x20)))
    yield "log append time", ask(sealed(patched(good, 21, ">h", 0x08)))
    yield "unused bits", ask(sealed(patched(good, 21, ">h", 0x80)))
    yield "delete horizon", ask(sealed(patched(good, 21, ">h", 0x40)))
    for codec in (5, 6, 7):
        yield f"codec {codec}", ask(sealed(patched(good, 21, ">h", codec)))
    for known in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        yield f"codec {known.name}", ask(batch(b"value" * 20, codec=known))
    yield "compressed garbage", ask(sealed(patched(good, 21, ">h", 1)))
    yield "time below 0", ask(sealed(patched(patched(good, 27, ">q", -1), 35, ">q", -1)))
    yield "time far below 0", ask(sealed(patched(patched(good, 27, ">q", -500), 35, ">q", -500)))
    yield "times swapped", ask(sealed(patched(good, 35, ">q", 0)))
    yield "time in the far future", ask(batch(b"v", timestamp_ms=1 << 45))
    yield "records that are garbage", ask(sealed(good[:61] + b"\xff" * (len(good) - 61)))
    yield "transactional id", ask(good, transactional_id="t")


@about(produce.API_KEY)
def produce_idempotent(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a")

    def ask(producer_id: int, epoch: int, sequence: int, count: int = 1) -> Table:
        records = batch(*[b"v"] * count, producer_id=producer_id, epoch=epoch, sequence=sequence)
        body = produce_body(topic, records, version=version, acks=-1)
        answer = side.ask_raw(produce.API_KEY, version, body, lambda answer: produce.decode_response(version, answer))
        return {path: value for path, value in answer.items() if not path.endswith(("base_offset", "error_message"))} | {
            "has an offset": any(value != -1 for path, value in answer.items() if path.endswith("base_offset"))
        }

    mine = 4_000_000_001
    yield "begins above 0", ask(mine, 0, 5)
    yield "goes on", ask(mine, 0, 6, 2)
    yield "again", ask(mine, 0, 6, 2)
    yield "part of it again", ask(mine, 0, 6)
    yield "gap", ask(mine, 0, 10)
    yield "behind", ask(mine, 0, 4)
    yield "new epoch above 0", ask(mine, 1, 5)
    yield "new epoch", ask(mine, 1, 0)
    yield "old epoch", ask(mine, 0, 8)
    for number in range(6):
        yield f"more {number}", ask(mine, 1, 1 + number)
    yield "five back", ask(mine, 1, 2)
    yield "six back", ask(mine, 1, 1)
    other = mine + 1
    yield "begins at the top", ask(other, 0, 2**31 - 2)
    yield "at the very top", ask(other, 0, 2**31 - 1)
    yield "wraps", ask(other, 0, 0)
    yield "wraps within", ask(other, 0, 1)
    yield "epoch below 0", ask(mine + 2, -1, 0)
    yield "sequence below 0", ask(mine + 2, 0, -1)
    yield "id -2", ask(-2, 0, 0)


@about(fetch.API_KEY)
def fetch_(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a")
    offsets = side.fill(topic, 5)
    end = offsets[-1]
    size = len(batch(b"value"))

    def ask(offset: int = 0, name: str = topic, index: int = 0, most: int = 1 << 20, epoch: int = -1, **words: Any) -> Table:
        wanted = fetch.FetchPartition(index, offset, most, current_leader_epoch=epoch)
        topics = words.pop("topics", [fetch.FetchTopic(name, [wanted])])
        values: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics} | words
        names: dict[fetch.TopicKey, str] = {}
        if version >= fetch.FIRST_WITH_IDS:
            names = {side.topic_id(one.name): one.name for one in topics}
            values["topics"] = [one._replace(name=side.topic_id(one.name)) for one in topics]

        def read(answer: memoryview) -> fetch.FetchResponse:
            found = fetch.decode_response(version, answer)
            return found._replace(topics=[one._replace(name=names.get(one.name, one.name)) for one in found.topics])

        body = fetch.encode_request(version, fetch.FetchRequest(**values))
        answer = side.ask_raw(fetch.API_KEY, version, body, read)
        return {path: _batches(value, size) if path.endswith("records") else value for path, value in answer.items()}

    yield "all", ask()
    yield "from the third", ask(offsets[2])
    yield "at the end", ask(end)
    yield "beyond the end", ask(end + 1)
    yield "far beyond the end", ask(1 << 60)
    yield "below 0", ask(-1)
    yield "unknown topic", ask(0, f"{own}-nothing")
    yield "unknown partition", ask(index=1)
    yield "partition below 0", ask(index=-1)
    yield "bad name", ask(0, "a b")
    yield "nameless", ask(0, "")
    for most in (0, 1, -1, size, 2 * size + 1):
        yield f"partition bytes {most - size if most >= size else most}{' more than one' if most >= size else ''}", ask(most=most)
    for most in (0, 1, -1):
        yield f"bytes {most}", ask(max_bytes=most)
    for least in (0, -1, 1 << 30):
        yield f"at least {least}", ask(min_bytes=least)
    yield "at the end, at least 0", ask(end, min_bytes=0)
    yield "at the end, waiting", ask(end, max_wait_ms=50)
    yield "waiting below 0", ask(end, max_wait_ms=-1)
    yield "committed only", ask(isolation_level=1)
    yield "committed only, at the end", ask(end, isolation_level=1)
    yield "isolation unknown", ask(isolation_level=2)
    yield "no topics", ask(topics=[])
    yield "no partitions", ask(topics=[fetch.FetchTopic(topic, [])])
    twice = [fetch.FetchTopic(topic, [fetch.FetchPartition(0, 0, 1 << 20), fetch.FetchPartition(0, offsets[4], 1 << 20)])]
    yield "partition twice", ask(topics=twice)
    yield (
        "good and bad",
        ask(topics=[fetch.FetchTopic(topic, [fetch.FetchPartition(0, 0, 1 << 20), fetch.FetchPartition(9, 0, 1 << 20)])]),
    )
    if version >= 9:
        for epoch in (0, 1, 7):
            yield f"epoch {epoch}", ask(epoch=epoch)
    if version >= 12:
        for epoch in (0, 1):
            wanted = fetch.FetchPartition(0, 0, 1 << 20, last_fetched_epoch=epoch)
            yield f"last epoch {epoch}", ask(topics=[fetch.FetchTopic(topic, [wanted])])
    if version >= 7:
        for name, session in {
            "new session": (0, 0),
            "no session": (0, -1),
            "session that is not": (12345, 1),
            "session that is not, closed": (12345, -1),
            "session 0 goes on": (0, 1),
            "session below 0": (-1, 0),
            "session begun anew": (12345, 0),
        }.items():
            answer = ask(session_id=session[0], session_epoch=session[1])
            yield name, answer | ({"session_id": bool(answer["session_id"])} if "session_id" in answer else {})
        yield (
            "empty new session",
            {key: bool(value) if key == "session_id" else value for key, value in ask(topics=[], session_epoch=0).items()},
        )
    yield "a follower", ask(replica_id=2)
    yield "a debugger", ask(replica_id=-2)
    yield "its own", ask(replica_id=1)


def _batches(records: Any, size: int) -> str:
    return "null" if records is None else f"{len(records) / size:g} batches"


@about(LIST_OFFSETS)
def list_offsets_(side: Side, version: int, own: str) -> Iterator[Step]:
    topic, empty = side.make(f"{own}-a"), side.make(f"{own}-b")
    side.fill(topic, 5)
    first_ms = 1_700_000_000_000

    def ask(*times: int, name: str = topic, **words: Any) -> Table:
        return side.ask(LIST_OFFSETS, version, list_offsets(name, *times, **words))

    for time in SPECIAL_TIMES:
        yield f"time {time}", ask(time)
        yield f"time {time} of an empty one", ask(time, name=empty)
    for time in (0, first_ms - 1, first_ms, first_ms + 1, first_ms + 4000, first_ms + 4001, 1 << 62):
        yield f"time {time}", ask(time)
    yield "time 0 of an empty one", ask(0, name=empty)
    yield "unknown topic", ask(-1, name=f"{own}-nothing")
    yield "bad name", ask(-1, name="a b")
    yield "unknown partition", ask(-1, partition=7)
    yield "partition below 0", ask(-1, partition=-1)
    yield "committed only", ask(-1, isolation=1)
    yield "committed only, by time", ask(first_ms, isolation=1)
    yield "isolation unknown", ask(-1, isolation=7)
    yield "partition twice", ask(-1, -2)
    yield "no topics", side.ask(LIST_OFFSETS, version, {"replica_id": -1, "isolation_level": 0, "topics": []})
    if version >= 4:
        for epoch in (-2, 0, 1, 9):
            yield f"epoch {epoch}", ask(-1, epoch=epoch)
            yield f"epoch {epoch}, by time", ask(first_ms, epoch=epoch)
    for replica in (-2, 1, 5):
        yield f"replica {replica}", side.ask(LIST_OFFSETS, version, list_offsets(topic, -1) | {"replica_id": replica})


@about(LEADER_EPOCH)
def offset_for_leader_epoch(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a")
    empty = side.make(f"{own}-b")
    side.fill(topic, 3)

    def ask(epoch: int, name: str = topic, partition: int = 0, current: int = -1, replica: int = -1) -> Table:
        wanted = [{"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}]
        return side.ask(LEADER_EPOCH, version, {"replica_id": replica, "topics": [{"topic": name, "partitions": wanted}]})

    for epoch in (0, 1, -1, -2, 7):
        yield f"epoch {epoch}", ask(epoch)
        yield f"epoch {epoch} of an empty one", ask(epoch, empty)
    for current in (0, 1, -2):
        yield f"current {current}", ask(0, current=current)
    yield "unknown topic", ask(0, f"{own}-nothing")
    yield "bad name", ask(0, "a b")
    yield "unknown partition", ask(0, partition=4)
    yield "partition below 0", ask(0, partition=-1)
    yield "a follower", ask(0, replica=3)
    yield "a debugger", ask(0, replica=-2)
    yield "no topics", side.ask(LEADER_EPOCH, version, {"replica_id": -1, "topics": []})


@about(DELETE_RECORDS)
def delete_records(side: Side, version: int, own: str) -> Iterator[Step]:
    topic = side.make(f"{own}-a")
    empty = side.make(f"{own}-b")
    offsets = side.fill(topic, 6)

    def ask(offset: int, name: str = topic, partition: int = 0, timeout_ms: int = 10_000) -> Table:
        wanted = [{"name": name, "partitions": [{"partition_index": partition, "offset": offset}]}]
        return side.ask(DELETE_RECORDS, version, {"topics": wanted, "timeout_ms": timeout_ms})

    yield "none", side.ask(DELETE_RECORDS, version, {"topics": [], "timeout_ms": 1000})
    yield "to 0", ask(0)
    yield "to the third", ask(offsets[2])
    yield "back to the second", ask(offsets[1])
    yield "to -2", ask(-2)
    yield "beyond the end", ask(offsets[-1] + 1)
    yield "unknown topic", ask(0, f"{own}-nothing")
    yield "bad name", ask(0, "a b")
    yield "unknown partition", ask(0, partition=3)
    yield "partition below 0", ask(0, partition=-1)
    yield "of an empty one", ask(-1, empty)
    yield "beyond an empty one", ask(1, empty)
    yield "in no time", ask(offsets[3], timeout_ms=0)
    yield "where it begins", side.ask(LIST_OFFSETS, 5, list_offsets(topic, -2))
    twice = [{"partition_index": 0, "offset": offsets[3]}, {"partition_index": 0, "offset": offsets[4]}]
    request = {"topics": [{"name": topic, "partitions": twice}], "timeout_ms": 1000}
    yield "partition twice", side.ask(DELETE_RECORDS, version, request)
    yield "to the end", ask(-1)
    yield "where it begins then", side.ask(LIST_OFFSETS, 5, list_offsets(topic, -2))
    yield "where it ends", side.ask(LIST_OFFSETS, 5, list_offsets(topic, -1))


@about(INIT_PRODUCER_ID)
def init_producer_id(side: Side, version: int, own: str) -> Iterator[Step]:
    def ask(transactional_id: str | None, timeout_ms: int = 60_000, producer_id: int = -1, epoch: int = -1) -> Table:
        message: dict[str, Any] = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        answer = side.ask(INIT_PRODUCER_ID, version, message | {"producer_id": producer_id, "producer_epoch": epoch})
        given = answer.get("producer_id", -1)
        return answer | {"producer_id": "the same" if given == producer_id != -1 else given if given < 0 else "an id"}

    ready = side.until(lambda: ask(None), lambda answer: answer["error_code"] != "coordinator_load_in_progress")
    yield "idempotent", ready
    yield "in no time", ask(None, 0)
    yield "below no time", ask(None, -1)
    yield "with a nameless id", ask("")
    if version >= 3:
        yield "with its old id", ask(None, producer_id=777, epoch=3)
        yield "with an old id and no epoch", ask(None, producer_id=777)
        yield "with an epoch and no id", ask(None, epoch=3)
        yield "with an id below 0", ask(None, producer_id=-7, epoch=0)
        yield "with its last epoch", ask(None, producer_id=777, epoch=32767)
    yield "transactional, in no time", ask("t", 0)
    yield "transactional, too long", ask("t", 2**31 - 1)
