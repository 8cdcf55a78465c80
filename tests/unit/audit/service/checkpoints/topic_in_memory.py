"""The checkpoint topic and the audit topic, in memory. Appending can end after any number of messages, as a kill would end it."""

from collections.abc import Iterable, Iterator, Mapping

from headrace.audit.service.hearing.other_audits import Position


class Killed(BaseException):
    """The process is gone."""


class TopicInMemory:
    """`CheckpointLog`; `audit_start` is where the audit topic begins."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.start = 0
        self.audit_start: dict[int, int] = {}
        self.noted: dict[str, Position] = {}
        self.lives: int | None = None
        """Messages that are still taken before the process is killed; None: it is not."""

    def append(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._live()
            self.values.append(value)

    def read(self, from_offset: int = 0) -> Iterator[tuple[int, bytes | None]]:
        begin = max(self.start, from_offset)
        yield from list(enumerate(self.values))[begin:]

    def trim(self, audit: Mapping[int, int], checkpoints_before: int) -> None:
        self._live()
        for partition, offset in audit.items():
            self.audit_start[partition] = max(offset, self.audit_start.get(partition, 0))
        self._live()
        self.start = max(self.start, checkpoints_before)

    def note_position(self, position: Position) -> None:
        self.noted[position.store] = position

    def positions(self) -> list[Position]:
        return list(self.noted.values())

    def _live(self) -> None:
        if self.lives is not None:
            if self.lives == 0:
                raise Killed
            self.lives -= 1
