"""Records that are done one by one by the application's handler, and what happens when it raises an error."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ..client.fetch.fetched import TopicPartition
from ..runtime.backoff import Backoff
from ..runtime.lifecycle import StopSignal
from .errors import HandlerFailed, ReaderMisused
from .processor import ProcessorAway, RefusedRecord
from .record import EventRecord

Handler = Callable[[EventRecord], object]
PAUSE = Backoff(first_ms=100, longest_ms=2_000)
"""Between two attempts with a record. The partitions of this member wait meanwhile."""
FAILED = "handler_failed"
"""The code of quarantine records."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The first error ends the reader: `run` raises HandlerFailed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A record that fails `after` times goes to the topic `<topic>.quarantine`, and the reader continues."""

    after: int = 3

    def __post_init__(self) -> None:
        if self.after < 1:
            raise ReaderMisused(f"Quarantine(after={self.after}): a handler is called once at least")


OnError = Stop | Quarantine


def reason_of(attempts: int, error: Exception) -> str:
    """Return why a record goes to quarantine."""
    times = f"{attempts} times" if attempts > 1 else "once"
    return f"the handler failed {times}, at last with {type(error).__name__}: {error}"


class HandledRecords:
    """A `Processor`: each record is done when the handler returns."""

    def __init__(self, handle: Handler, on_error: OnError, stop: StopSignal) -> None:
        self._handle, self._on_error, self._stop = handle, on_error, stop
        self._refused: list[RefusedRecord] = []

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {}

    def take(self, record: EventRecord) -> None:
        attempt = 0
        while True:
            try:
                self._handle(record)
                return
            except Exception as error:
                attempt += 1
                policy = self._on_error
                if isinstance(policy, Stop):
                    raise HandlerFailed(record, error) from error
                if attempt >= policy.after:
                    self._refused.append(RefusedRecord(record, reason_of(attempt, error), FAILED))
                    return
                if self._stop.wait(PAUSE.wait_ms(attempt - 1)):
                    raise ProcessorAway("the reader stops: the record is read again") from error

    @property
    def is_full(self) -> bool:
        return False

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        refused = [one for one in self._refused if one.record.of in positions]
        self._refused = [one for one in self._refused if one.record.of not in positions]
        return refused

    def end(self, partitions: Collection[TopicPartition]) -> None:
        self._refused = [one for one in self._refused if one.record.of not in partitions]

    def close(self) -> None:
        return
