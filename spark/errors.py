"""Errors between the offline cluster and the warehouse.

Facts are attributes; `retriable` says whether to run it again.
"""

from collections.abc import Sequence
from typing import ClassVar

from ..errors import HeadraceError

FAULTS_EXIT_CODE = 3
"""Of a command over all topics: some are at fault and named, and the others are done. To run it again finds the same."""


class WarehouseError(HeadraceError):
    """The root of this room's errors."""


class LogMoved(WarehouseError):
    """The log changed during a load: it ends before, or begins after, the offsets to be read."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, partition: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        super().__init__(f"load of {topic}-{partition}: {reason}")


class UnusableRecord(WarehouseError):
    """A record cannot be used, and the reader has no quarantine for it."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"{topic}-{partition} offset {offset}: {reason}; name a cluster in the option `quarantine` to put such records aside"
        )


class LoadSuperseded(WarehouseError):
    """Another load committed while this one ran; this one deleted its own files."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, rounds: int) -> None:
        self.topic = topic
        super().__init__(f"load of {topic!r}: another load committed first, {rounds} times; nothing is lost, run it again")


class LoadUnproven(WarehouseError):
    """The written files do not match what was read: nothing was committed."""

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        super().__init__(
            f"load of {topic!r} gave up before its commit: {reason}; run it again, and keep the logs if it happens again"
        )


class DecodersDisagree(WarehouseError):
    """Two decoders read different values out of one record: it is unknown which one the rows of its load have."""

    def __init__(self, schema_id: int, partition: int, offset: int, names: Sequence[str]) -> None:
        self.schema_id = schema_id
        self.partition = partition
        self.offset = offset
        super().__init__(
            f"the record at partition {partition}, offset {offset}, with schema id {schema_id} is decoded in two ways: its "
            f"field(s) {', '.join(names)} differ from what a second decoder reads. Nothing was committed. Keep the log, and "
            "report the schema"
        )


class CompactionUnproven(WarehouseError):
    """The merged files do not hold what the old ones held, or an old one is damaged: the hour stays as it was."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"compaction of {what}: {reason}; its files stay as they are")


class ReloadRefused(WarehouseError):
    """The hours cannot be loaded again; nothing was changed."""

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        super().__init__(f"reload of {topic!r}: {reason}; nothing was changed")


class SparkFailed(WarehouseError):
    """The Spark job failed; nothing was committed."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        self.reason = reason
        super().__init__(f"load of {topic!r}: Spark failed: {reason}; nothing was committed, run it again")


class ClusterUnfit(SparkFailed):
    """The Spark cluster cannot run a load at all: no executors come, or their Python lacks what it takes."""


class TopicFailed(WarehouseError):
    """One topic of a load of many could not be loaded; nothing of it was committed, and the others continued."""

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        self.reason = reason
        super().__init__(f"load of {topic!r} failed: {reason}")


class NotTried(WarehouseError):
    """A topic of a load of many was not begun, because every topic before it failed by the same."""

    retriable: ClassVar[bool] = True

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        super().__init__(f"load of {topic!r} was not begun, because all topics before it failed, as in: {reason}")


class NoSuchTable(WarehouseError):
    """The warehouse has no table of that name yet."""

    def __init__(self, topic: str, known: list[str]) -> None:
        self.topic = topic
        there = f"it has {', '.join(known)}" if known else "it has no table yet"
        super().__init__(
            f"the warehouse has no table {topic!r} ({there}): `headrace load {topic}` makes one from the topic's events"
        )


class StoreUnreachable(HeadraceError):
    """The object store does not answer, or refuses: nothing is known of the file. No WarehouseError: nothing is damaged."""

    retriable: ClassVar[bool] = True

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        super().__init__(f"{name} cannot be reached: {reason}; nothing is lost, run it again once the store answers")


class CatalogUnreachable(HeadraceError):
    """The catalog's database or server does not answer. Whether a commit under way has landed, the next run finds out."""

    retriable: ClassVar[bool] = True

    def __init__(self, reason: str) -> None:
        super().__init__(f"the warehouse's catalog does not answer: {reason}; nothing is lost, run it again once it does")


class LeaseLost(WarehouseError):
    """This process made no progress for so long that another one took over its work."""

    retriable: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        super().__init__(f"{name}: this process lost its lease, and another one took over; nothing is lost, run it again")


class EmptyWarehouse(WarehouseError):
    """The warehouse has no table at all yet."""

    def __init__(self) -> None:
        super().__init__("the warehouse has no table yet: `headrace load TOPIC` makes one from the topic's events")


class AuditUnreachable(WarehouseError):
    """The audit service does not answer, so nothing can be published."""

    retriable: ClassVar[bool] = True

    def __init__(self, reason: str) -> None:
        super().__init__(f"nothing was published: {reason}; run it again then")


class BadQuery(WarehouseError):
    """The SQL cannot be run; the message is DuckDB's."""


class BadOption(WarehouseError):
    """An option of the format `headrace` cannot be used."""

    def __init__(self, option: str, reason: str) -> None:
        self.option = option
        super().__init__(f"format headrace, option {option}: {reason}")


class OffsetsLost(WarehouseError):
    """Offsets that were to be read are not in the log any more, and `failOnDataLoss` is true."""

    def __init__(self, topic: str, partition: int, from_offset: int, to_offset: int, reason: str) -> None:
        self.topic = topic
        self.partition = partition
        self.from_offset = from_offset
        self.to_offset = to_offset
        super().__init__(
            f"{topic}-{partition} offsets {from_offset} to {to_offset} cannot be read any more: {reason}. To continue "
            "without them, "
            f"set failOnDataLoss=false: the gap is then named in the log and in the stream's progress. To lose none, keep the "
            f"topic longer (retention.ms, retention.bytes) or read it more often"
        )


class NewFields(WarehouseError):
    """Events have fields that the columns of this read do not have, and `newFields` is `error`."""

    def __init__(self, topic: str, schema_id: int, names: Sequence[str]) -> None:
        self.topic = topic
        self.schema_id = schema_id
        self.names = tuple(names)
        super().__init__(
            f"{topic}: events of schema id {schema_id} have field(s) {', '.join(names)}, for which this read has no column: the "
            f"schema came after its start. Start the query again and they become columns; to leave them out, set "
            f"newFields=ignore or name the columns you want (option `columns`)"
        )
