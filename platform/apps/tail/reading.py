"""Reads a topic's records without a group: from a place in each partition to its end as it is now, or on and on.

Holds one answer of a fetch at a time. Within a partition records come in order; of several, as the answers come.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...client.connection.cluster import Cluster
from ...client.errors import ClientError, OffsetOutOfRange
from ...client.fetch.fetched import FetchedPartition, TopicPartition
from ...client.fetch.fetcher import Fetcher
from ...client.fetch.log_offsets import LATEST, log_offsets
from ...errors import HeadraceError
from ...reader.decoding.event_decoder import EventDecoder, Undecodable
from ...reader.decoding.json_value import json_value
from ...runtime.backoff import Backoff
from ...wire.batch.record_batch import Record, iter_records
from ...wire.errors import CorruptBatch, NotFramed
from ...wire.schema_id import unframe

FETCH_BYTES = 4 << 20
PARTITION_BYTES = 1 << 20
RETRY_FOR_S = 30


class TailEnded(HeadraceError):
    """The cluster did not answer for too long."""


class Reading:
    """The records of some partitions of one topic."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        starts: Mapping[int, int],
        *,
        follow: bool,
        tell: Callable[[str], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        """`starts`: partition → offset, or what `log_offsets` understands: EARLIEST, LATEST, a time in ms behind `times`.

        `tell` is called with what a person should know: damaged ranges, retries.
        """
        self._topic = topic
        self._follow = follow
        self._tell = tell
        self._is_stopped = is_stopped
        self._fetcher = Fetcher(
            cluster,
            max_wait_ms=500 if follow else 100,
            max_bytes=FETCH_BYTES,
            partition_max_bytes=PARTITION_BYTES,
            hides_aborted=True,
        )
        self._at = {TopicPartition(topic, partition): offset for partition, offset in starts.items()}
        self._ends = {} if follow else log_offsets(cluster, dict.fromkeys(self._at, LATEST))

    def records(self) -> Iterator[tuple[int, Record]]:
        """Yield (partition, record). Raises ClientError, TailEnded."""
        backoff, attempt, since = Backoff(), 0, time.monotonic()
        try:
            while not self._is_stopped() and (wanted := self._wanted()):
                try:
                    fetched = self._fetcher.fetch(wanted)
                except OffsetOutOfRange as error:
                    self._skip(error)
                    continue
                except ClientError as error:
                    if not error.retriable:
                        raise
                    if time.monotonic() - since > RETRY_FOR_S:
                        raise TailEnded(f"no answer for {RETRY_FOR_S} s: {error}") from error
                    time.sleep(backoff.wait_ms(attempt) / 1000)
                    attempt += 1
                    continue
                attempt, since = 0, time.monotonic()
                for one in fetched:
                    if one.error is None:
                        yield from self._of(one)
        finally:
            self._fetcher.close()

    def _wanted(self) -> dict[TopicPartition, int]:
        # Rotated, so that a full partition does not keep the others waiting.
        names = list(self._at)
        if names:
            self._at[names[0]] = self._at.pop(names[0])
        return {name: at for name, at in self._at.items() if self._follow or at < self._ends[name]}

    def _of(self, one: FetchedPartition) -> Iterator[tuple[int, Record]]:
        name = TopicPartition(one.topic, one.partition)
        begin, end = self._at[name], self._ends.get(name)
        for bad in one.corrupt:
            self._tell(
                f"{name.topic}-{name.partition}: offsets {bad.from_offset} to {bad.to_offset} cannot be read: {bad.reason}"
            )
        for header, batch in one.batches:
            if header.is_control or not header.record_count:
                continue
            try:
                for record in iter_records(batch):
                    if record.offset >= begin and (end is None or record.offset < end):
                        yield one.partition, record
            except CorruptBatch as error:
                self._tell(f"{name.topic}-{name.partition}: the batch at {header.base_offset} cannot be read: {error}")
        self._at[name] = max(begin, one.next_offset)

    def _skip(self, error: OffsetOutOfRange) -> None:
        for name, at in self._at.items():
            if (name.topic, name.partition) == (error.topic, error.partition):
                if error.log_start_offset <= at:
                    raise error
                self._tell(
                    f"{error.topic}-{error.partition}: it begins at {error.log_start_offset} now: what was before is deleted"
                )
                self._at[name] = error.log_start_offset


def words_of(topic: str, partition: int, record: Record, decoder: EventDecoder) -> dict[str, Any]:
    """Return a record as JSON values: `event` where it is Avro with a known schema, else `value` as text and `why`.

    Raises the registry client's error when the registry does not answer.
    """
    words: dict[str, Any] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": None if record.key is None else _text(record.key),
    }
    value = None if record.value is None else bytes(record.value)
    if value is None:
        return {**words, "value": None}
    try:
        schema_id, _ = unframe(value)
        return {**words, "schema_id": schema_id, "event": json_value(decoder.decode(value))}
    except (NotFramed, Undecodable) as error:
        return {**words, "value": _text(value), "why": str(error)}


def fields_of(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an expression sees: the event's fields, and the record's own names behind `_`."""
    event = words.get("event")
    fields = dict(event) if isinstance(event, dict) else {"value": words.get("value", event)}
    return {
        **fields,
        **{f"_{name}": words[name] for name in ("topic", "partition", "offset", "key")},
        "_timestamp": words["timestamp_ms"],
    }


def _text(value: bytes | memoryview) -> str:
    return bytes(value).decode("utf-8", "backslashreplace")
