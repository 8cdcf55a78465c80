"""A broker without room to append is not ready, reports the path and the bytes left, and is ready again when there is room."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.monitoring import health
from headrace.runtime import disk_room
from headrace.runtime.disk_room import LEAST_BYTES, LEAST_FILES, DiskRoom, why_no_room
from tests.support.processes import eventually
from tests.support.raw_kafka import batch
from tests.support.serving_broker import ServingBroker
from tests.unit.broker.monitoring.test_health import WELL
from tests.unit.broker.monitoring.test_monitoring_pages import PlayedSession, asked, reasons, watched

ROOM = DiskRoom(path=Path("/data"), free_bytes=LEAST_BYTES, free_files=LEAST_FILES)


def test_room_for_one_batch_and_one_segment_is_enough() -> None:
    assert why_no_room(ROOM) is None
    assert why_no_room(replace(ROOM, free_files=None)) is None


@pytest.mark.parametrize(
    ("room", "words"),
    [
        (replace(ROOM, free_bytes=LEAST_BYTES - 1), ["full", "/data", str(LEAST_BYTES - 1)]),
        (replace(ROOM, free_files=LEAST_FILES - 1), ["no more files", "/data"]),
        (replace(ROOM, is_read_only=True), ["only be read", "/data"]),
        ("/data cannot be read: gone", ["/data cannot be read"]),
    ],
)
def test_without_room_the_reason_names_path_and_bytes(room: DiskRoom | str, words: list[str]) -> None:
    facts = replace(WELL, room=room)
    (reason,) = health.why_not_ready(facts)
    assert all(word in reason for word in words), reason
    assert health.why_dead(facts) == [], "a start makes no room"


def test_the_page_tells_the_room_in_numbers_too() -> None:
    words = json.loads(health.page("ready", [], replace(WELL, room=ROOM)).body)
    assert words["data"] == {"path": "/data", "free_bytes": LEAST_BYTES}


def test_the_room_of_a_folder_is_the_file_system_s_and_of_none_a_reason(tmp_path: Path) -> None:
    room = disk_room.look(tmp_path)
    assert isinstance(room, DiskRoom)
    assert room.free_bytes > 0
    assert str(tmp_path / "gone") in str(disk_room.look(tmp_path / "gone"))


def test_a_refused_append_is_told_for_a_while_where_the_file_system_shows_room() -> None:
    facts = replace(WELL, room=ROOM, append_refused_ms_ago=1)
    (reason,) = health.why_not_ready(facts)
    assert "refused an append 1 ms ago" in reason
    assert health.why_not_ready(replace(facts, append_refused_ms_ago=health.REFUSED_MS)) == []
    assert len(health.why_not_ready(replace(facts, room=replace(ROOM, free_bytes=0)))) == 1, "one reason, the better one"


def test_a_broker_with_a_full_disk_is_not_ready_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServingBroker(tmp_path) as broker:
        pages = watched(broker, PlayedSession())
        assert reasons(pages) == []
        real = os.statvfs(tmp_path)
        full = os.statvfs_result((*real[:3], 0, 0, *real[5:]))
        monkeypatch.setattr(disk_room.os, "statvfs", lambda path: full)
        assert "has 0 bytes free" in reasons(pages)[0]
        assert str(broker.settings.data) in reasons(pages)[0]
        assert asked(pages, "/healthz").status == 200
        assert b"headrace_broker_ready 0\n" in asked(pages, "/metrics").body
        monkeypatch.undo()
        assert reasons(pages) == []


def test_an_append_refused_for_a_quota_makes_the_broker_unready_and_it_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> int:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with ServingBroker(tmp_path, topics={"plain": 1}) as broker:
        pages = watched(broker, PlayedSession())
        with broker.client() as client:
            monkeypatch.setattr(os, "pwrite", refuses)
            monkeypatch.setattr(os, "pwritev", refuses)
            assert client.produce("plain", batch(b"x")).error_code != 0
            monkeypatch.undo()
            eventually(lambda: "refused an append" in "".join(reasons(pages)), what="the refused append told")
            assert client.produce("plain", batch(b"x")).error_code == 0
        monkeypatch.setattr(health, "REFUSED_MS", 0)
        assert reasons(pages) == []
