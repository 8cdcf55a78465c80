"""What keeps a reader of a cluster going."""

from collections.abc import Callable, Iterator

import pytest

from headrace.audit.service.ingest.reading_thread import ReadingThread
from headrace.client.connection.cluster import Cluster
from headrace.client.errors import LeaderUnknown, OffsetOutOfRange
from tests.support.processes import eventually


class ScriptedReader(ReadingThread):
    """Raises the errors of a script, one a reading, then reads well."""

    def __init__(self, *script: Exception) -> None:
        super().__init__("scripted", Cluster("127.0.0.1:1"))
        self.script = list(script)
        self.events: list[str] = []
        self.well = 0

    def _read_once(self) -> None:
        if self.script:
            raise self.script.pop(0)
        self.well += 1
        self._stop.wait(1)

    def _begin_again(self) -> None:
        self.events.append(f"begins again: {self.failure}")

    def _out_of_range(self, error: OffsetOutOfRange) -> None:
        self.events.append(f"out of range at {error.offset}")

    def _tell_recovered(self) -> None:
        self.events.append("recovered")

    def _tell_failed(self, error: Exception, *, is_fault: bool) -> None:
        self.events.append(f"failed: {error}, our own fault: {is_fault}")


Start = Callable[..., ScriptedReader]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[ScriptedReader] = []

    def start(*script: Exception) -> ScriptedReader:
        started.append(ScriptedReader(*script))
        started[-1].start()
        return started[-1]

    yield start
    for one in started:
        one.stop()
        assert not one.is_running


def test_failures_in_a_row_are_told_once_and_the_thread_reads_on(start: Start) -> None:
    away = LeaderUnknown("clicks", 0, "away")
    reader = start(away, ValueError("a bug"))
    eventually(lambda: reader.well > 1, what="read again")
    assert reader.failure is None
    assert reader.events == [
        f"failed: {away}, our own fault: False",
        f"begins again: {away}",
        "begins again: a bug",
        "recovered",
    ]


def test_a_fault_of_our_own_is_told_as_one(start: Start) -> None:
    reader = start(ValueError("a bug"))
    eventually(lambda: reader.well > 1, what="read again")
    assert reader.events[0] == "failed: a bug, our own fault: True"


def test_an_offset_out_of_range_is_no_failure(start: Start) -> None:
    reader = start(OffsetOutOfRange("clicks", 0, 7, 9))
    eventually(lambda: reader.well > 1, what="read on")
    assert reader.events == ["out of range at 7"]
