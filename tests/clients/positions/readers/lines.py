"""Shared by the programs of this folder: commands from stdin, responses to stdout."""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol

PATIENCE_S = 20.0


class Record(NamedTuple):
    offset: int
    value: bytes


class Consumer(Protocol):
    """A client's consumer of partition 0, as far as it is used here."""

    def poll(self) -> list[Record]:
        """Return what arrived within about 100 ms."""

    def position(self) -> int:
        """Return the next offset to read."""

    def commit(self, offset: int) -> None: ...

    def committed(self) -> int:
        """Return the server's offset for its group."""

    def lag(self) -> int | None:
        """Return the group's lag as the client computes it, None if it does not."""

    def close(self) -> None: ...


class Reader(Protocol):
    """A client."""

    def ends(self, topic: str) -> tuple[int, int]: ...

    def at(self, topic: str, offset: int) -> Consumer:
        """Return a consumer without a group that begins at `offset`."""

    def member(self, topic: str, group: str) -> Consumer:
        """Return a consumer that has joined and continues at the group's offset, or at the begin if there is none."""


def say(*words: object) -> None:
    print(*words, flush=True)


def serve(reader: Reader) -> None:
    for line in sys.stdin:
        try:
            _carry_out(reader, line.split())
            say("done")
        except Exception as error:  # each client has its own errors; the test receives every one
            say("failed", repr(error).replace("\n", " "))


def _carry_out(reader: Reader, words: list[str]) -> None:
    command, topic = words[:2]
    if command == "ends":
        begin, end = reader.ends(topic)
        say("begin", begin)
        say("end", end)
    elif command == "read":
        consumer = reader.at(topic, int(words[2]))
        try:
            _until(consumer, int(words[3]))
            say("position", consumer.position())
        finally:
            consumer.close()
    elif command == "idle":
        consumer = reader.at(topic, int(words[2]))
        try:
            _until(consumer, int(words[3]))
            say("idle")
            end_s = time.monotonic() + int(words[4]) / 1000
            while time.monotonic() < end_s:
                _tell(consumer.poll())
            say("over")
        finally:
            consumer.close()
    elif command == "group":
        consumer = reader.member(topic, words[2])
        try:
            _read_and_commit(consumer, int(words[3]), int(words[4]))
        finally:
            consumer.close()
    else:
        raise ValueError(command)


def _read_and_commit(consumer: Consumer, most: int, to: int) -> None:
    _until(consumer, to, most, consumer.commit)
    say("committed", consumer.committed())
    lag = consumer.lag()
    if lag is not None:
        say("lag", lag)


def _until(consumer: Consumer, to: int, most: int | None = None, commit: Callable[[int], None] | None = None) -> None:
    """Print records until the position is `to` or `most` have come; the client may have read more than is printed then."""
    deadline_s = time.monotonic() + PATIENCE_S
    count, at = 0, consumer.position()
    while at < to and (most is None or count < most):
        records = consumer.poll()
        if most is not None:
            records = records[: most - count]
        _tell(records)
        count += len(records)
        at = records[-1].offset + 1 if most is not None and records else consumer.position()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{count} records, then at {at} on the way to {to}")
    if commit is not None:
        commit(at)


def _tell(records: list[Record]) -> None:
    if records:
        print("\n".join(f"record {one.offset} {one.value.decode()}" for one in records), flush=True)
