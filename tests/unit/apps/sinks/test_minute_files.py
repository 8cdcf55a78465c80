"""Minute files without a cluster: killed between any two steps, each record is in one file, whole, in either format."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.apps.sinks import file_ledger, minute_files
from headrace.apps.sinks.file_formats import Format
from headrace.apps.sinks.file_ledger import FileLedger
from headrace.apps.sinks.minute_files import MINUTE_MS, MinuteFiles
from headrace.apps.sinks.sink import SinkRefused
from headrace.client.consumer.stream_message import Message
from headrace.client.fetch.fetched import TopicPartition
from headrace.reader.record import EventRecord

NAME = TopicPartition("clicks", 0)
START_MS = 29_833_333 * MINUTE_MS
SCHEMA = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "n", "type": "int"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
}


class Killed(BaseException):
    """The process ended here."""


def record(offset: int, schema_id: int = 7) -> EventRecord:
    at_ms = START_MS + offset * 20_000
    event = {"n": offset, "at": datetime.fromtimestamp(at_ms / 1000, UTC)}
    return EventRecord(Message("clicks", 0, offset, offset + 1, at_ms, b"k", b"x" * 20, ()), schema_id, event)


def sink(folder: Path, form: Format = "ndjson", **words: Any) -> MinuteFiles:
    return MinuteFiles(folder, "group", form, lambda schema_id: json.dumps(SCHEMA), **words)


def written(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("clicks/*/*/*")):
        with path.open("rb") as file:
            found += fastavro.reader(file) if path.suffix == ".avro" else map(json.loads, file)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("form", ["ndjson", "avro"])
def test_records_are_in_the_files_of_their_minutes(tmp_path: Path, form: Format) -> None:
    one = sink(tmp_path, form)
    assert one.begin({NAME: 0}) == {}
    for offset in range(7):
        one.take(record(offset, schema_id=7 if offset < 5 else 8))
    assert written(tmp_path) == [], "nothing has its name before it is whole"
    assert one.flush({NAME: 7}) == []
    found = written(tmp_path)
    assert [each["event"]["n"] for each in found] == list(range(7))
    assert [each["id"] for each in found] == [f"clicks-0-{offset}" for offset in range(7)]
    names = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.glob("clicks/*/*/*"))]
    assert len(names) == (3 if form == "ndjson" else 4)
    assert all(name.startswith("clicks/2026-09-21/") for name in names)
    assert one.begin({NAME: 3}) == {NAME: 7}, "what is finished is not read again"


STEPS = ("replace_file", "_sync_folder", "rename")


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_each_step_of_a_finish_each_record_is_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    total = 12
    for kill_at in range(1, 9):
        folder = tmp_path / str(kill_at)
        left = kill_at

        def killing(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*words: Any, **named: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    raise Killed
                return real(*words, **named)

            return call

        with monkeypatch.context() as patch:
            if step == "rename":
                patch.setattr(Path, "rename", killing(Path.rename))
            else:
                patch.setattr(file_ledger, step, killing(getattr(file_ledger, step)))
            run(folder, total, committed=[0])
        run(folder, total, committed=[0])
        assert Counter(each["event"]["n"] for each in written(folder)) == Counter(range(total)), f"killed at {step} {kill_at}"
        assert not list(folder.rglob("*.tmp"))


def run(folder: Path, total: int, committed: list[int]) -> None:
    """Write from the group's offset on, as the pump does; a kill leaves what it leaves."""
    one = sink(folder)
    begin = one.begin({NAME: committed[0]}).get(NAME, committed[0])
    try:
        for offset in range(begin, total):
            one.take(record(offset))
            if offset % 5 == 4 or offset == total - 1:
                one.flush({NAME: offset + 1})
    except Killed:
        return


def test_open_files_are_bounded(tmp_path: Path) -> None:
    one = sink(tmp_path, most_open_files=2)
    one.begin({NAME: 0})
    one.take(record(0))
    assert not one.is_full
    one.take(record(3))
    assert one.is_full
    one.flush({NAME: 4})
    assert not one.is_full


def test_what_another_member_takes_over_is_dropped(tmp_path: Path) -> None:
    one = sink(tmp_path)
    one.begin({NAME: 0})
    one.take(record(0))
    one.end([NAME])
    one.flush({NAME: 1})
    assert written(tmp_path) == []
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_disk_that_fails_ends_the_sink_and_the_next_begins_behind_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sink(tmp_path)
    one.begin({NAME: 0})
    one.take(record(0))

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(minute_files.os, "fsync", fail)
        with pytest.raises(SinkRefused, match="No space"):
            one.flush({NAME: 1})
    one.close()
    run(tmp_path, 3, committed=[0])
    assert [each["event"]["n"] for each in written(tmp_path)] == [0, 1, 2]


def test_a_ledger_that_is_none_is_named(tmp_path: Path) -> None:
    ledger = FileLedger(tmp_path, "group")
    ledger.open()
    (ledger.scratch / "clicks-0.json").write_text("{}")
    with pytest.raises(SinkRefused, match=r"clicks-0\.json is not a ledger"):
        sink(tmp_path).begin({NAME: 0})
