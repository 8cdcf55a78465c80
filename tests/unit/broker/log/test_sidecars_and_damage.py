"""Any damage is served alike with sidecars and without: a plain walk through the bytes is the oracle."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.log import PartitionLog
from headrace.wire.batch.record_batch import BatchHeader, crc_matches, read_header
from headrace.wire.errors import CorruptBatch
from tests.support.small_logs import NOW_MS, batch, checkpointed, claiming, fetched, headers, open_log, scrubbed

pytestmark = pytest.mark.usefixtures("no_fsync")


Whole = list[tuple[int, bytes]]


def oracle(folder: Path) -> Whole:
    """Return (offset, bytes) of every batch that may be served, by a walk that shares no code with the log's."""
    whole: Whole = []
    bases = sorted(int(path.stem) for path in folder.glob("*.log"))
    for base, limit in zip(bases, [*bases[1:], 1 << 62], strict=True):
        data = (folder / f"{base:020d}.log").read_bytes()
        at = 0
        while at + 61 <= len(data):
            header = _header(data, at)
            if (
                header is not None
                and header.base_offset == base + at + max(0, header.size_bytes - header.record_count)
                and at + header.size_bytes <= len(data)
                and header.last_offset_delta + 1 == header.record_count
                and header.base_offset + header.record_count <= limit
                and crc_matches(data, at, header.size_bytes)
            ):
                whole.append((base + at, data[at : at + header.size_bytes]))
                at += max(header.size_bytes, header.record_count)
            else:
                at += 1
    return whole


def _header(data: bytes, at: int) -> BatchHeader | None:
    try:
        return read_header(data, at)
    except CorruptBatch:
        return None


def served(log: PartitionLog, **how: Any) -> Whole:
    return [(header.position, data) for header, data in fetched(log, **how)]


@given(st.data())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_damage_is_met_as_an_opening_without_sidecars_meets_it(no_fsync: None, data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headrace-log-"))
    try:
        config = {
            "segment_bytes": data.draw(st.sampled_from([150, 400, 100_000])),
            "index_interval_bytes": data.draw(st.sampled_from([1, 200, 5_000])),
            "flush_on_roll": data.draw(st.booleans()),
        }
        log = open_log(folder, **config)
        sequence = 0
        for step in data.draw(st.lists(st.sampled_from("aaaaahcfk"), max_size=25)):
            match step:
                case "a":
                    log.append(batch(b"%d" % sequence, b"more", producer_id=3, epoch=0, sequence=sequence), NOW_MS)
                    sequence += 2
                case "h":
                    log.append(claiming(100), NOW_MS)
                case "c":
                    checkpointed(log)
                case "f":
                    log.flush()
                case "k":
                    log = open_log(folder, **config)
        whole_before = {header.position for header in headers(log)}
        files = sorted(folder.glob("*.log"))
        for _ in range(data.draw(st.integers(0, 3))):
            _damage(data, data.draw(st.sampled_from(files)))
        for path in [*folder.glob("*.index"), *folder.glob("*.recent")]:
            match data.draw(st.sampled_from(["keep", "keep", "remove", "flip"])):
                case "remove":
                    path.unlink()
                case "flip":
                    _damage(data, path)
        expected = [entry for entry in oracle(folder) if entry[0] in whole_before]
        bare = Path(tempfile.mkdtemp(prefix="headrace-bare-"))
        for path in folder.glob("*.log"):
            shutil.copy2(path, bare / path.name)
        try:
            full = open_log(bare, **config)
            assert served(full) == expected
            for ready in (lambda log: log, scrubbed):
                with_sidecars = ready(open_log(folder, **config))
                for max_bytes in (1, 150, 100_000):
                    assert served(with_sidecars, max_bytes=max_bytes) == expected
                # A batch that was whole once keeps its offsets even where it was the last and is damaged now.
                assert full.log_end_offset <= with_sidecars.log_end_offset
        finally:
            shutil.rmtree(bare)
    finally:
        shutil.rmtree(folder)


def _damage(data: st.DataObject, path: Path) -> None:
    content = bytearray(path.read_bytes())
    if not content:
        return
    at = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["flip", "zeros", "cut"])):
        case "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        case "zeros":
            length = data.draw(st.integers(1, 300))
            content[at : at + length] = bytes(len(content[at : at + length]))
        case "cut":
            del content[at:]
    with path.open("r+b") as file:  # in place: the same inode
        file.write(content)
        file.truncate()


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_small_log_damaged_at_every_byte_is_served_alike_with_and_without_sidecars(tmp_path: Path, damage: str) -> None:
    def at_every_byte(make: Callable[[Path], PartitionLog]) -> None:
        log = make(tmp_path / "log")
        path = sorted((tmp_path / "log").glob("*.log"))[0]
        content = path.read_bytes()
        aside = {each.name: each.read_bytes() for each in (tmp_path / "log").iterdir() if each.suffix != ".log"}
        before = {header.position for header in headers(log)}
        for at in range(len(content)):
            for name, bytes_ in aside.items():
                (tmp_path / "log" / name).write_bytes(bytes_)
            with path.open("r+b") as file:
                file.write(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :] if damage == "flip" else content)
                file.truncate(at if damage == "cut" else len(content))
            expected = [entry for entry in oracle(tmp_path / "log") if entry[0] in before]
            assert served(open_log(tmp_path / "log", segment_bytes=300), max_bytes=200) == expected

    at_every_byte(lambda folder: checkpointed(_few_batches(folder)))


def _few_batches(folder: Path) -> PartitionLog:
    log = open_log(folder, segment_bytes=300)
    for number in range(5):
        log.append(claiming(90) if number == 2 else batch(b"%d" % number), NOW_MS)
    return log
