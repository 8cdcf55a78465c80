"""A data folder belongs to one broker at a time, and to one broker id for ever."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from headrace.broker.errors import (
    BrokerError,
    FolderDamaged,
    FolderInUse,
    FolderOfAnotherBroker,
    FolderOfAnotherCluster,
    FolderOfOldFormat,
    FolderUnusable,
)
from headrace.broker.partitions.identity import FolderLock, check_cluster, identify, note_cluster


def test_a_folder_keeps_its_id_over_restarts(tmp_path: Path) -> None:
    first = identify(tmp_path, 3)
    assert identify(tmp_path, 3) == first
    assert first.broker_id == 3


def test_a_folder_of_another_broker_id_is_refused(tmp_path: Path) -> None:
    identify(tmp_path, 3)
    with pytest.raises(FolderOfAnotherBroker, match="belongs to broker 3, not 4"):
        identify(tmp_path, 4)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 2}', '{"version": 3, "folder_id": "x", "broker_id": 1}'])
def test_a_folder_whose_description_cannot_be_read_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "broker.json").write_text(content)
    with pytest.raises(FolderDamaged):
        identify(tmp_path, 1)
    assert (tmp_path / "broker.json").read_text() == content


def test_a_folder_of_log_format_1_is_refused_with_what_to_do_and_left_alone(tmp_path: Path) -> None:
    content = '{"version": 1, "folder_id": "x", "broker_id": 1}'
    (tmp_path / "broker.json").write_text(content)
    with pytest.raises(FolderOfOldFormat, match=r"of log format 1 .* Give an empty folder"):
        identify(tmp_path, 1)
    assert (tmp_path / "broker.json").read_text() == content


def test_a_second_lock_on_a_folder_is_refused_until_the_first_is_released(tmp_path: Path) -> None:
    first = FolderLock(tmp_path / "data").take()
    with pytest.raises(FolderInUse):
        FolderLock(tmp_path / "data").take()
    first.release()
    FolderLock(tmp_path / "data").take().release()


def test_a_folder_that_cannot_be_made_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerError, match="cannot be used"):
        FolderLock(tmp_path / "file" / "data").take()


def test_a_description_that_cannot_be_opened_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broker.json").mkdir()
    with pytest.raises(FolderUnusable, match=r"cannot be used: .*Is a directory.*broker.json"):
        identify(tmp_path, 1)


def test_a_folder_of_one_cluster_is_not_served_under_another_or_none(tmp_path: Path) -> None:
    """Fault: on an ensemble that had lost its tree, a client's first record made the topic again and set its log aside."""
    check_cluster(tmp_path, None)
    note_cluster(tmp_path, "one")
    note_cluster(tmp_path, "two")
    check_cluster(tmp_path, "one")
    with pytest.raises(FolderOfAnotherCluster, match="is of the cluster one, and ZooKeeper is of the cluster two"):
        check_cluster(tmp_path, "two")
    with pytest.raises(FolderOfAnotherCluster, match=r"ZooKeeper has no cluster id.*headrace zookeeper import"):
        check_cluster(tmp_path, None)
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(FolderDamaged, match="delete it if this folder is of the cluster two"):
        check_cluster(tmp_path, "two")


def test_a_new_folder_on_a_full_disk_is_refused_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FolderUnusable, match=r"No space left.*with room left"):
        identify(tmp_path, 1)


def test_a_file_system_without_locks_is_refused_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(FolderUnusable, match=r"No locks available"):
        FolderLock(tmp_path).take()
