"""What a replica's folder and a broker's data folder note: durable, whole after a crash, and never trusted when damaged."""

import errno
import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from headrace.broker.log import BadRange, FolderFault, LogConfig, PartitionLog
from headrace.broker.partitions import replica_lives, replica_note
from headrace.broker.partitions.replica_lives import ReplicaLives
from headrace.broker.partitions.replica_log import ReplicaLog, open_replica, without_lost_pages
from headrace.broker.partitions.replica_note import LINE_BYTES, ReplicaNote
from headrace.broker.replication.state import EpochStart, Member
from headrace.coordination.errors import ConnectionUnsure, CoordinationError, VersionConflict
from headrace.wire.batch.record_batch import BatchBuilder

TOPIC = UUID(int=(1 << 126) + 1)
NOW_MS = 1_800_000_000_000


def batch(value: bytes) -> bytearray:
    builder = BatchBuilder()
    builder.append(NOW_MS, None, value)
    return bytearray(builder.build())


def opened(folder: Path, *, segment_bytes: int = 1 << 20, has_lost_memory: bool = False) -> ReplicaLog:
    config = LogConfig(segment_bytes=segment_bytes, flush_on_roll=False)
    log = PartitionLog.open(folder / "events-0", topic="events", partition=0, config=config, now_ms=NOW_MS)
    return open_replica(log, TOPIC, lambda: NOW_MS, has_lost_memory=has_lost_memory)


def test_a_note_is_read_back_and_a_torn_write_leaves_the_one_before(tmp_path: Path) -> None:
    assert replica_note.read(tmp_path) is None
    first = ReplicaNote(token="a" * 32, version=4, leader_epoch=2, count=1)
    second = ReplicaNote(token="a" * 32, version=-1, leader_epoch=3, went_back=True, count=2)
    replica_note.write(tmp_path, first)
    assert replica_note.read(tmp_path) == first
    replica_note.write(tmp_path, second)
    assert replica_note.read(tmp_path) == second
    path = tmp_path / replica_note.NAME
    torn = bytearray(path.read_bytes())
    torn[10] ^= 1  # the newer one is in the first line
    path.write_bytes(torn)
    assert replica_note.read(tmp_path) == first
    torn[LINE_BYTES + 10] ^= 1
    path.write_bytes(torn)
    with pytest.raises(ValueError, match="damaged"):
        replica_note.read(tmp_path)


def test_the_set_of_the_last_node_is_noted_and_is_unknown_where_it_is_of_another_note(tmp_path: Path) -> None:
    members = tuple(Member(broker_id=one, life=f"memory:{one:032x}.{one:032x}") for one in (1, 2, 3))
    first = ReplicaNote(token="a" * 32, version=4, leader_epoch=2, members=members, count=1)
    second = ReplicaNote(token="a" * 32, version=5, leader_epoch=2, members=members[:2], count=2)
    path = tmp_path / replica_note.NAME
    replica_note.write(tmp_path, first)
    of_an_earlier_release = path.read_bytes()[: 2 * LINE_BYTES]
    replica_note.write(tmp_path, second)
    assert replica_note.read(tmp_path) == second
    assert path.stat().st_size <= 4_096, "the file is one block, so that a note is one write of the disk"
    torn = bytearray(path.read_bytes())
    torn[2 * LINE_BYTES + 30] ^= 1  # the newer set is in the first place
    path.write_bytes(torn)
    assert replica_note.read(tmp_path) == replace(second, members=())
    path.write_bytes(of_an_earlier_release)
    assert replica_note.read(tmp_path) == replace(first, members=())
    too_many = ReplicaNote(token="a" * 32, version=6, members=members * 8, count=3)
    replica_note.write(tmp_path, too_many)
    assert replica_note.read(tmp_path) == replace(too_many, members=())


def test_a_damaged_note_or_list_of_epochs_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    replica.note(3, 1, went_back=False)
    replica.begin_epoch(1, 0)
    replica.close()
    folder = tmp_path / "events-0"
    kept = (folder / replica_note.NAME).read_bytes()
    (folder / replica_note.NAME).write_bytes(b"x" * 2 * LINE_BYTES)
    with pytest.raises(FolderFault, match="Move the folder away"):
        opened(tmp_path)
    (folder / replica_note.NAME).write_bytes(kept)
    (folder / "leader-epoch-checkpoint").write_bytes(b"0\n1\n1 x\n")
    with pytest.raises(Exception, match="leader-epoch-checkpoint is damaged"):
        opened(tmp_path)


def test_a_new_folder_has_another_token_and_keeps_it(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note(5, 2, went_back=False)
    first.close()
    again = opened(tmp_path)
    assert (again.noted.token, again.noted.version) == (first.noted.token, 5)
    again.close()
    (tmp_path / "events-0").rename(tmp_path / "away")
    other = opened(tmp_path)
    assert other.noted.token != first.noted.token
    assert other.noted.version == -1
    other.close()


def test_an_emptied_log_begins_elsewhere_with_its_epochs_and_note(tmp_path: Path) -> None:
    replica = opened(tmp_path)
    replica.log.append(batch(b"one"), NOW_MS, leader_epoch=1)
    replica.note(3, 1, went_back=False)
    replica.begin_empty(5_000, (EpochStart(leader_epoch=2, start_offset=4_000),))
    facts = replica.facts(with_crc=True)
    assert (facts.log_start_offset, facts.end_offset, facts.incarnation) == (5_000, 5_000, 1)
    assert facts.epochs == (EpochStart(leader_epoch=2, start_offset=4_000),)
    assert list(tmp_path.glob("events-0.cut.*"))
    token = replica.noted.token
    replica.close()
    again = opened(tmp_path)
    assert (again.noted.token, again.noted.version, again.log.log_end_offset) == (token, 3, 5_000)
    again.close()
    with pytest.raises(OSError, match="closed"):
        again.cut(5_000)


def test_pages_that_a_power_cut_took_between_segments_end_the_log_there_and_its_lives(tmp_path: Path) -> None:
    """Fault: the hole counted as a gap of the leader, so the replica was in sync without the records."""
    replica = opened(tmp_path, segment_bytes=300)
    for number in range(8):
        replica.log.append(batch(b"%d" % number), NOW_MS, leader_epoch=1)
    token, end = replica.noted.token, replica.log.log_end_offset
    names = sorted((tmp_path / "events-0").glob("*.log"))
    lost = names[0].stat().st_size // 2
    whole = len(batch(b"1")) * (lost // len(batch(b"1")))
    del replica
    with names[0].open("r+b") as file:
        file.truncate(whole)
    killed = opened(tmp_path, segment_bytes=300)
    assert killed.log.log_end_offset == end, "after a mere kill nothing is lost, so a hole is a gap of the leader"
    assert killed.noted.token == token
    del killed
    after = opened(tmp_path, segment_bytes=300, has_lost_memory=True)
    assert after.log.log_end_offset == whole
    assert after.noted.token != token
    after.close()


@pytest.mark.parametrize("segment_bytes", [300, 10_000])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_damage_that_a_power_cut_left_behind_the_last_flush_ends_the_log_there(
    tmp_path: Path, segment_bytes: int, at: int
) -> None:
    """Fault: after a power cut of all replicas, a range that no replica could repair kept all but the leader out of the set."""
    replica = opened(tmp_path, segment_bytes=segment_bytes)
    ends = [replica.log.append(batch(b"%d" % number), NOW_MS, leader_epoch=1).next_offset for number in range(8)]
    token = replica.noted.token
    del replica
    begin = ends[at - 1] if at else 0
    base, path = max((int(path.stem), path) for path in (tmp_path / "events-0").glob("*.log") if int(path.stem) <= begin)
    with path.open("r+b") as file:
        file.seek(begin - base)
        file.write(bytes(ends[at] - begin))
    after = opened(tmp_path, segment_bytes=segment_bytes, has_lost_memory=True)
    assert (after.log.log_end_offset, after.log.bad_ranges, after.is_damaged) == (begin, [], False)
    assert after.noted.token != token
    assert list(tmp_path.glob("events-0.cut.*"))
    after.close()


def test_damage_of_what_was_flushed_does_not_end_the_log_after_a_power_cut(tmp_path: Path) -> None:
    replica = opened(tmp_path, segment_bytes=300)
    ends = [replica.log.append(batch(b"%d" % number), NOW_MS, leader_epoch=1).next_offset for number in range(8)]
    replica.close()
    after = opened(tmp_path, segment_bytes=300, has_lost_memory=True)
    assert after.log.comparison.note_bad(BadRange(ends[0], ends[1], "planted"))
    assert without_lost_pages(after.log, NOW_MS) is None
    assert after.log.log_end_offset == ends[-1]
    after.close()


class Numbers:
    """ZooKeeper's start numbers; `fates` says what happens to the next raises."""

    def __init__(self) -> None:
        self.number = 0
        self.fates: list[str] = []

    def start_number(self, broker_id: int) -> int:
        return self.number

    def raise_start_number(self, broker_id: int, known: int) -> int:
        fate = self.fates.pop(0) if self.fates else "lands"
        if fate == "unsure, landed":
            self.number += 1
            raise ConnectionUnsure("raise", "/brokers/lives/1", "too slow")
        if fate == "dies":
            raise KeyboardInterrupt
        if known != self.number:
            raise VersionConflict("raise", "/brokers/lives/1")
        self.number += 1
        return self.number


def lives(data: Path, numbers: Numbers, boot: bytes = b"one") -> ReplicaLives:
    return ReplicaLives(data, 1, boot=lambda: boot).begin(numbers)


def test_lives_stay_over_a_kill_and_end_with_the_boot_unless_all_was_closed(tmp_path: Path) -> None:
    numbers = Numbers()
    first = lives(tmp_path, numbers).of_folder("t")
    killed = lives(tmp_path, numbers)
    assert killed.of_folder("t") == first
    assert killed.start_number == 2
    assert killed.of_folder("u").memory != first.memory
    cut = lives(tmp_path, numbers, b"two")
    assert cut.of_folder("t").disk == first.disk
    assert cut.of_folder("t").memory != first.memory
    assert cut.has_lost_memory
    again = lives(tmp_path, numbers, b"two")
    assert again.has_lost_memory, "the start that found it out did not look at every log"
    again.logs_are_open()
    assert not lives(tmp_path, numbers, b"two").has_lost_memory
    clean = lives(tmp_path, numbers, b"two")
    clean.closed_cleanly()
    assert lives(tmp_path, numbers, b"three").of_folder("t") == clean.of_folder("t")
    failed = lives(tmp_path, numbers, b"three")
    failed.flush_failed()
    assert lives(tmp_path, numbers, b"three").of_folder("t").disk != failed.of_folder("t").disk


def test_an_older_copy_of_the_folder_and_a_damaged_note_are_not_trusted(tmp_path: Path) -> None:
    numbers = Numbers()
    first = lives(tmp_path, numbers).of_folder("t")
    copy = (tmp_path / replica_lives.FILE).read_bytes()
    lives(tmp_path, numbers)
    (tmp_path / replica_lives.FILE).write_bytes(copy)
    assert lives(tmp_path, numbers).of_folder("t").disk != first.disk
    (tmp_path / replica_lives.FILE).write_bytes(b"{")
    damaged = lives(tmp_path, numbers)
    assert damaged.of_folder("t").disk != first.disk
    assert damaged.has_lost_memory


def test_on_a_full_disk_a_process_begins_and_no_life_outlasts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was killed on a full disk starts there, and serves."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    numbers = Numbers()
    first = lives(tmp_path, numbers).of_folder("t")
    with monkeypatch.context() as patch:
        patch.setattr(replica_lives, "replace_file", full)
        assert lives(tmp_path, numbers).of_folder("t") == first, "the folder has what it had"
        assert lives(tmp_path, numbers).of_folder("t").disk != first.disk
    after = lives(tmp_path, numbers)
    assert after.of_folder("t").disk != first.disk
    assert after.has_lost_memory
    with monkeypatch.context() as patch:
        patch.setattr(replica_lives, "replace_file", full)
        after.flush_failed()
    assert lives(tmp_path, numbers).of_folder("t").disk != after.of_folder("t").disk


def test_a_failed_flush_that_could_not_be_noted_is_noted_by_the_next_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    numbers = Numbers()
    failing = lives(tmp_path, numbers)
    with monkeypatch.context() as patch:
        patch.setattr(replica_lives, "replace_file", broken)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output"):
                failing.flush_failed()
    failing.flush_failed()
    assert lives(tmp_path, numbers).of_folder("t").disk != failing.of_folder("t").disk


def test_a_start_that_dies_between_note_and_zookeeper_costs_no_life(tmp_path: Path) -> None:
    numbers = Numbers()
    first = lives(tmp_path, numbers).of_folder("t")
    numbers.fates = ["dies"]
    with pytest.raises(KeyboardInterrupt):
        lives(tmp_path, numbers)
    assert lives(tmp_path, numbers).of_folder("t") == first
    numbers.fates = ["unsure, landed"]
    unsure = lives(tmp_path, numbers)
    assert unsure.of_folder("t") == first
    assert unsure.start_number == numbers.number == 4
    assert json.loads((tmp_path / replica_lives.FILE).read_text())["start_number"] == 4


def test_a_start_number_that_others_raise_on_and_on_is_given_up(tmp_path: Path) -> None:
    numbers = Numbers()
    numbers.fates = ["unsure, landed"] * 20
    with pytest.raises(CoordinationError, match="its own id"):
        lives(tmp_path, numbers)


def test_a_replica_begins_empty_twice_in_one_millisecond(tmp_path: Path) -> None:
    """The second folder that is put aside had the name of the first, and the replica stopped."""
    replica = opened(tmp_path)
    replica.begin_empty(100, ())
    replica.begin_empty(80, ())
    assert replica.log.log_end_offset == 80
    aside = sorted(path.name for path in tmp_path.glob("events-0.cut.*"))
    assert aside == [f"events-0.cut.{NOW_MS}", f"events-0.cut.{NOW_MS + 1}"]
    replica.close()
