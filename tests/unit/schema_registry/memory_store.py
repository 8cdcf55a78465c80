"""A schemas topic in memory: what the store promises, without a broker. Two stores may share one, as two registries would."""

import threading
from collections.abc import Sequence

from headrace.errors import HeadraceError
from headrace.schema_registry.service.records import RegistryRecord, decode, encode
from headrace.schema_registry.service.state import RegistryState


class MemoryTopic(str):
    """Its text is its name."""

    def __new__(cls) -> "MemoryTopic":
        return super().__new__(cls, "_schemas.memory")

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []


class MemoryStore:
    """Reads the topic when it catches up and after each write; `failure` is raised instead where it is set."""

    bootstrap = "memory:1"
    is_caught_up = True
    trouble: str | None = None
    damage: str | None = None

    def __init__(self, topic: MemoryTopic | None = None) -> None:
        self.topic = topic or MemoryTopic()
        self.state = RegistryState()
        self.state_lock = threading.RLock()
        self.failure: HeadraceError | None = None
        self.before_write = lambda: None
        self._read = 0

    @property
    def next_offset(self) -> int:
        return self._read

    def cluster_id(self) -> str:
        if self.failure is not None:
            raise self.failure
        return "memory"

    def check_readable(self) -> None:
        pass

    def catch_up(self) -> None:
        if self.failure is not None:
            raise self.failure
        self._take_in()

    def write(self, records: Sequence[RegistryRecord], epoch: int | None = None, /) -> str | None:
        self.before_write()
        self.topic.records.extend(encode(record) for record in records)
        refusals = self._take_in()[-len(records) :]
        return next((refusal for refusal in refusals if refusal), None)

    def _take_in(self) -> list[str | None]:
        refusals = []
        with self.state_lock:
            for key, value in self.topic.records[self._read :]:
                told = decode(key, value)
                refusals.append(None if told is None else self.state.apply(told))
                self._read += 1
        return refusals
