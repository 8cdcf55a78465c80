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
    """An answer that no reader of committed records may get."""

    reader: str
    partition: int
    asked_offset: int
    error_code: int
    at_ms: int


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
        self.owned: list[Owned] = []
        self.committed: list[Committed] = []
        self.found: list[Found] = []
