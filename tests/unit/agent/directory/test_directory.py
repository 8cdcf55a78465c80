"""A folder whose files are messages: shipped whole, once, whatever is killed, and done with as the settings say."""

import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headrace.agent.directory.directory_group import DirectoryGroup
from headrace.agent.directory.file_schema import DROPPED_FILE_SCHEMA
from headrace.agent.directory.settings import directories_from
from headrace.agent.shipping.shipper import Shipper
from headrace.wire.quarantine_record import QuarantineRecord
from headrace.wire.schema_id import unframe
from tests.unit.agent.conftest import World
from tests.unit.agent.world import Crashed

_SCHEMA = fastavro.parse_schema(DROPPED_FILE_SCHEMA)


class Drop:
    """A folder, and agents that ship it."""

    def __init__(self, world: World, folder: Path, **words: Any) -> None:
        self.world = world
        self.folder = folder
        folder.mkdir(exist_ok=True)
        faults: list[str] = []
        table = {"path": str(folder), "topic": "clicks", "ready": "renamed", **words}
        (self.settings,) = directories_from([table], faults)
        assert not faults
        self.group = self._group()

    def put(self, name: str, content: bytes) -> Path:
        (self.folder / f"{name}.tmp").write_bytes(content)
        return (self.folder / f"{name}.tmp").rename(self.folder / name)

    def agent(self, step: Callable[[str], None] = lambda name: None) -> Shipper:
        self.group = self._group()
        shipper = Shipper(self.world.settings, [self.group], self.world.registry, self.world.clock, step=step)
        shipper.start()
        return shipper

    def ship(self, until: Callable[[], bool], step: Callable[[str], None] = lambda name: None) -> None:
        shipper = self.agent(step)
        try:
            self.world.work(shipper, lambda: until() and not shipper.delivery.planned.count, "files shipped", 20)
        finally:
            shipper.close()

    def stored(self) -> list[dict[str, Any]]:
        return [_event(value) for _, value in self.world.read("clicks")]

    def _group(self) -> DirectoryGroup:
        return DirectoryGroup(self.settings, host="host", agent_name="one", clock=self.world.clock)


def _event(value: bytes) -> dict[str, Any]:
    return fastavro.schemaless_reader(io.BytesIO(bytes(unframe(value)[1])), _SCHEMA, None)  # type: ignore[return-value]


@pytest.fixture
def drop(world: World, tmp_path: Path) -> Callable[..., Drop]:
    return lambda **words: Drop(world, tmp_path / "drop", **words)


def test_each_file_is_one_message_and_is_kept(drop: Callable[..., Drop]) -> None:
    one = drop()
    contents = {f"{number}.eml": os.urandom(1000 * number) for number in range(5)}
    for name, content in contents.items():
        one.put(name, content)
    (one.folder / ".hidden").write_bytes(b"no")
    (one.folder / "half.part").write_bytes(b"no")
    (one.folder / "folder").mkdir()
    (one.folder / "link").symlink_to(one.folder / "0.eml")
    one.ship(lambda: len(one.stored()) == 5)
    found = one.stored()
    assert {event["name"]: event["content"] for event in found} == contents
    assert all(event["sha256"] == hashlib.sha256(event["content"]).hexdigest() for event in found)
    assert len({event["id"] for event in found}) == 5
    # Another agent on the same state: what is kept is not sent again, what is new is.
    one.put("new.eml", b"new")
    one.ship(lambda: len(one.stored()) >= 6)
    assert sorted(event["name"] for event in one.stored()) == sorted([*contents, "new.eml"])


def test_a_file_that_is_written_over_is_a_new_message(drop: Callable[..., Drop]) -> None:
    one = drop()
    one.put("a", b"first")
    one.ship(lambda: len(one.stored()) == 1)
    one.put("a", b"second")
    one.ship(lambda: len(one.stored()) == 2)
    assert [event["content"] for event in one.stored()] in ([b"first", b"second"], [b"second", b"first"])


@pytest.mark.parametrize("done", ["move", "delete"])
def test_what_is_stored_is_moved_or_deleted_and_nothing_else(drop: Callable[..., Drop], tmp_path: Path, done: str) -> None:
    away = tmp_path / "done"
    one = drop(done=done, **({"done_folder": str(away)} if done == "move" else {}))
    one.put("a", b"first")
    one.ship(lambda: not list(one.folder.iterdir()))
    one.put("a", b"second")
    one.ship(lambda: not list(one.folder.iterdir()))
    assert sorted(event["content"] for event in one.stored()) == [b"first", b"second"]
    if done == "move":
        assert sorted(path.read_bytes() for path in away.iterdir()) == [b"first", b"second"]
        assert (away / "a").read_bytes() == b"first"


def test_a_file_that_is_written_slowly_is_taken_when_it_is_quiet(drop: Callable[..., Drop]) -> None:
    one = drop(ready="quiet", quiet_ms=5_000)
    path = one.folder / "slow"
    path.write_bytes(b"half")
    shipper = one.agent()
    try:
        for _ in range(3):
            shipper.turn()
            one.world.clock.jump(3_000)
            path.write_bytes(path.read_bytes() + b"!")
        assert one.stored() == []
        one.group.scan({})
        one.world.clock.jump(5_000)
        one.world.work(shipper, lambda: len(one.stored()) == 1, "the quiet file")
    finally:
        shipper.close()
    assert one.stored()[0]["content"] == b"half!!!"


def test_a_file_that_is_too_large_goes_to_quarantine_and_stays(drop: Callable[..., Drop]) -> None:
    one = drop(most_file_bytes=1000, done="delete")
    one.put("large", b"x" * 1001)
    one.put("fits", b"y" * 1000)
    one.ship(lambda: len(one.world.read("clicks.quarantine")) == 1 and len(one.stored()) == 1)
    (record,) = [QuarantineRecord.from_json(value) for _, value in one.world.read("clicks.quarantine")]
    assert (record.code, record.payload) == ("file_too_large", b"x" * 1001)
    one.ship(lambda: True)
    assert (one.folder / "large").exists()
    assert len(one.world.read("clicks.quarantine")) == 1


def test_more_files_than_the_bound_wait_and_hold_the_windows(drop: Callable[..., Drop]) -> None:
    one = drop(most_files=2)
    for number in range(3):
        one.put(str(number), b"x")
    scan = one.group.scan({})
    assert len(scan.changed) == 2
    assert "most_files" in scan.unopened["directory:clicks"]


def test_a_folder_that_is_not_there_is_told(drop: Callable[..., Drop]) -> None:
    one = drop()
    one.folder.rmdir()
    shipper = one.agent()
    try:
        shipper.turn()
        assert "No such file" in shipper.sources.unopened["directory:clicks"]
    finally:
        shipper.close()


STEPS = ("before commit", "after commit", "after release", "after reports", "after send")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("done", ["keep", "delete"])
def test_killed_at_any_step_each_file_is_stored_once(drop: Callable[..., Drop], step: str, done: str) -> None:
    one = drop(done=done)
    contents = {f"{number}": os.urandom(500) for number in range(6)}
    for name, content in contents.items():
        one.put(name, content)
    for kill_at in (1, 2, 3, 5, 8):
        left = kill_at

        def crash(name: str) -> None:
            nonlocal left
            left -= name == step
            if not left:
                raise Crashed

        shipper = one.agent(crash)
        try:
            while True:
                shipper.turn()
        except Crashed:
            shipper.close()
    one.ship(lambda: len(one.stored()) >= 6)
    assert sorted(event["content"] for event in one.stored()) == sorted(contents.values())


def test_a_file_that_goes_before_it_is_stored_is_a_loss_with_a_name(drop: Callable[..., Drop]) -> None:
    one = drop()
    path = one.put("a", b"x")

    def crash(name: str) -> None:
        if name == "after commit" and one.group.events["files_found"] and planned():
            raise Crashed

    shipper = one.agent(crash)
    planned = lambda: shipper.delivery.planned.count  # noqa: E731
    try:
        one.world.work(shipper, lambda: False, "a crash")
    except Crashed:
        shipper.close()
    path.unlink()
    shipper = one.agent()
    try:
        one.world.work(shipper, lambda: shipper.store.totals().get("gone_from_source") == 1, "the loss")
    finally:
        shipper.close()
    assert one.stored() == []


def test_every_fault_of_the_sections_is_named() -> None:
    faults: list[str] = []
    directories_from(
        [
            {"path": "here", "topic": "a b", "done": "burn", "quiet_ms": -1, "speed": 1},
            {"path": "/x", "topic": "t", "done": "move"},
        ],
        faults,
    )
    told = "\n".join(faults)
    for word in ("not absolute", "'a b'", "'burn'", "quiet_ms", "speed", "done_folder: it is missing"):
        assert word in told, f"{word} is not named in:\n{told}"
