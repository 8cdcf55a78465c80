"""A restart after kill -9 reads only what was written after the last checkpoint; the rest is verified afterwards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.broker.log.tools.check import check
from headrace.wire.batch.record_batch import crc_matches, iter_batches, read_header
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, create_topic

SEGMENT_BYTES = 500_000
BATCH = batch(os.urandom(9_000))
COUNT = 300


def offsets(broker: BrokerProcess) -> list[int]:
    """Return where each served batch ends; every CRC matches."""
    found: list[int] = []
    with RawClient(broker.port) as client:
        offset = 0
        while len(records := client.fetch("load", offset, max_bytes=200_000).records or b""):
            assert isinstance(records, memoryview)
            for header, data in iter_batches(records):
                assert crc_matches(data, 0, header.size_bytes)
                found.append(header.next_offset)
                offset = header.next_offset
    return found


def headrace_log(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.cli.main", "log", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def loaded(zookeeper_chroot: str, tmp_path: Path) -> BrokerProcess:
    """A broker that was killed after it had written sidecars for all closed segments."""
    broker = BrokerProcess(tmp_path, zookeeper_chroot).start()
    create_topic(broker.port, "load", 1, {"segment.bytes": str(SEGMENT_BYTES)})
    with RawClient(broker.port) as client:
        for _ in range(COUNT):
            assert client.produce("load", BATCH).error_code == 0
    folder = broker.data / "load-0"

    def described() -> bool:
        closed = sorted(folder.glob("*.log"))[:-1]
        return len(closed) > 4 and all(path.with_suffix(".index").exists() for path in closed)

    eventually(described, what="sidecars of all closed segments")
    broker.kill()
    return broker


def test_damage_in_what_was_taken_on_trust_is_found_and_not_served(loaded: BrokerProcess) -> None:
    folder = loaded.data / "load-0"
    damaged = sorted(folder.glob("*.log"))[2]
    with damaged.open("r+b") as file:
        file.seek(3 * len(BATCH) + 100)
        file.write(b"damage")
    bad = int(damaged.stem) + 3 * len(BATCH)
    checked = headrace_log("check", folder, "--json")
    assert checked.returncode == 1
    (found,) = [line for line in map(json.loads, checked.stdout.splitlines()) if line["kind"] == "bad_range"]
    assert (found["from_offset"], found["to_offset"]) == (bad, bad + len(BATCH))
    with loaded:
        everything = [number * len(BATCH) for number in range(1, COUNT + 1)]
        assert offsets(loaded) == [end for end in everything if end != bad + len(BATCH)]
        eventually(lambda: "damage_found" in loaded.log, what="the scrub's report")
        assert headrace_log("repair", folder).returncode == 1


def test_the_log_is_sound_after_the_kill_and_a_restart_trusts_what_is_described(loaded: BrokerProcess) -> None:
    folder = loaded.data / "load-0"
    assert [problem for problem in check(folder) if not problem.kind.is_harmless] == []
    with loaded:
        assert offsets(loaded) == [number * len(BATCH) for number in range(1, COUNT + 1)]
        with RawClient(loaded.port) as client:
            assert client.produce("load", BATCH).base_offset == (COUNT + 1) * len(BATCH) - read_header(BATCH).record_count
    assert check(folder) == []
