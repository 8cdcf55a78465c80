"""What is in the journals of receivers, read as the agent reads it."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

from headrace.agent.journals import JournalGroup
from headrace.agent.receive.receivers import Receivers
from headrace.agent.settings import AgentSettings, from_words
from headrace.runtime.clock import SystemClock
from headrace.wire.quarantine_record import QuarantineRecord


def settings_of(folder: Path, **sections: Any) -> AgentSettings:
    return from_words({"agent": {"name": "one", "host": "host", "state": str(folder / "state")}, **sections})


class Running:
    """Receivers that are stopped in the end; `ports` of the first."""

    def __init__(self, folder: Path, **sections: Any) -> None:
        self.receivers = Receivers(settings_of(folder, **sections), SystemClock())

    def __enter__(self) -> "Running":
        self.receivers.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.receivers.stop()

    @property
    def one(self) -> Any:
        return self.receivers.receivers[0]

    @property
    def events(self) -> dict[str, int]:
        return {name.partition(".")[2]: count for name, count in self.receivers.events().items()}

    def journaled(self) -> list[dict[str, Any]]:
        return [event for event, _ in journaled(self.receivers.root)]

    def quarantined(self) -> list[QuarantineRecord]:
        return [one for source in sources(self.receivers.root) for one in _chunk(source).quarantined]

    def losses(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for source in sources(self.receivers.root):
            for (_, name), count in source.losses().items():
                found[name] = found.get(name, 0) + count
        return found


def journaled(root: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield (event, timestamp) of every journal below the root."""
    for source in sources(root):
        schema = fastavro.parse_schema(json.loads(source.schema))
        for record in _chunk(source).records:
            event: Any = fastavro.schemaless_reader(io.BytesIO(bytes(record.body)), schema, None)
            yield event, record.timestamp_ms


def sources(root: Path) -> list[Any]:
    group = JournalGroup(root, [], agent="test", clock=SystemClock())
    try:
        scan = group.scan({})
        assert not scan.unopened
        return list(scan.changed)
    finally:
        group.close()


def _chunk(source: Any) -> Any:
    return (
        source.read_again(source.start, source.read(source.start, 1 << 40).end) if source.read(source.start, 1 << 40) else _EMPTY
    )


class _Empty:
    records: tuple[Any, ...] = ()
    quarantined: tuple[Any, ...] = ()


_EMPTY = _Empty()
