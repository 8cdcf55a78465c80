"""What clients have done and seen: the only thing, with the files and ZooKeeper's log at the end, that the checkers look at."""

from typing import NamedTuple


class Sent(NamedTuple):
    """A record that a producer has sent, perhaps several times. `number` counts the producer's records of one partition."""

    producer: str
    number: int
    partition: int
    value: bytes


class Acknowledged(NamedTuple):
    """The records of one batch. `base_offset` is -1 where the broker said that it had the batch already."""

    partition: int
    base_offset: int
    values: tuple[bytes, ...]


class Seen(NamedTuple):
    """What one answer to a reader had: offset and value of each record, from `asked_offset` on."""

    reader: str
    partition: int
    asked_offset: int
    records: tuple[tuple[int, bytes], ...]


class Refused(NamedTuple):
    """OFFSET_OUT_OF_RANGE: the reader was behind the log's start. It began there again."""

    reader: str
    partition: int
    asked_offset: int
    error_code: int
    at_ms: int


class Deletion(NamedTuple):
    """DeleteRecords was asked for, or was answered: records before `offset` are deleted."""

    partition: int
    offset: int
    is_answered: bool


class Owned(NamedTuple):
    """A member of a group was given partitions. Generations are counted by `coordinator`, a broker's process, from the time when
    it last had no member; the id of the group's leader tells these times apart.
    """

    group: str
    member: str
    coordinator: str
    leader: str
    generation: int
    partitions: tuple[int, ...]


class Committed(NamedTuple):
    """A commit that was confirmed. `asked_us`, `answered_us`: when."""

    group: str
    partition: int
    offset: int
    asked_us: int
    answered_us: int


class Found(NamedTuple):
    """A committed offset that a member was told."""

    group: str
    partition: int
    offset: int
    asked_us: int
    answered_us: int


class History:
    """All of a run, in the order in which the clients noted it."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.acknowledged: list[Acknowledged] = []
        self.seen: list[Seen] = []
        self.refused: list[Refused] = []
        self.damaged: list[str] = []
        """Batches that a reader got and whose CRC was wrong."""
        self.deletions: list[Deletion] = []
        self.returned: list[bytes] = []
        """Records of a deleted topic that were read from a later one."""
        self.short_reads = 0
        """Answers with records of the topic that is deleted again and again."""
        self.owned: list[Owned] = []
        self.committed: list[Committed] = []
        self.found: list[Found] = []
