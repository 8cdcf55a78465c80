"""After any sequence of appends, rolls, flushes, stops, kills and expiries, every fetch loop reads each record exactly once."""

import shutil
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.broker.log.tools.check import check
from headrace.wire.batch.compression import Codec
from headrace.wire.batch.record_batch import iter_records
from tests.support.small_logs import DAY_MS, MAY_2015_MS, NOW_MS, batch, claiming, fetched, open_log

BATCH = st.tuples(
    st.just("append"),
    st.lists(st.binary(max_size=40), min_size=1, max_size=12),
    st.sampled_from(list(Codec)),
    st.integers(MAY_2015_MS, NOW_MS),
)
HOLE = st.tuples(st.just("hole"), st.integers(70, 400))
STEPS = st.lists(
    st.one_of(BATCH, BATCH, BATCH, HOLE, st.just(("restart",)), st.just(("kill",)), st.just(("flush",)), st.just(("expire",))),
    max_size=40,
)


@given(STEPS, st.integers(64, 2_000), st.integers(1, 600), st.integers(0, 2**32), st.booleans())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_each_record_is_read_exactly_once(
    no_fsync: None, steps: list[tuple[Any, ...]], segment_bytes: int, interval: int, seed: int, dense: bool
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headrace-log-"))
    config = {"segment_bytes": segment_bytes, "index_interval_bytes": interval, "retention_ms": DAY_MS}
    try:
        log = open_log(folder, **config)
        kept: list[tuple[int, int]] = []
        now_ms = NOW_MS
        for step in steps:
            match step:
                case ("append", payload, codec, timestamp_ms):
                    made = log.append(batch(*payload, codec=codec, timestamp_ms=timestamp_ms), now_ms)
                    kept.append((made.base_offset, len(payload)))
                case ("hole", count):
                    kept.append((log.append(claiming(count), now_ms).base_offset, count))
                case ("restart",):
                    log.close()
                    log = open_log(folder, **config)
                case ("kill",):
                    log = open_log(folder, **config)
                case ("flush",):
                    log.flush()
                case ("expire",):
                    now_ms += DAY_MS // 3
                    log.expire(now_ms)
        kept = [(base_offset, count) for base_offset, count in kept if base_offset >= log.log_start_offset]
        assert check(folder) == []
        for reader in (log, open_log(folder, **config)):
            for max_bytes in (1, 200, 100_000):
                found = fetched(reader, max_bytes=max_bytes, seed=seed)
                assert [(header.base_offset, header.record_count) for header, _ in found] == kept
    finally:
        shutil.rmtree(folder)


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_offset_ranges_that_split_anywhere_hold_each_record_once(no_fsync: None, data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headrace-log-"))
    try:
        log = open_log(folder, segment_bytes=data.draw(st.integers(64, 1_000)))
        for values in data.draw(st.lists(st.lists(st.binary(max_size=9), min_size=1, max_size=9), max_size=20)):
            log.append(batch(*values), NOW_MS)
        end = log.log_end_offset
        cuts = sorted({0, end, *data.draw(st.lists(st.integers(0, end), max_size=6))})
        read: list[int] = []
        for start, stop in pairwise(cuts):
            for header, bytes_ in fetched(log, from_offset=start, max_bytes=300):
                if header.position >= stop:
                    break
                read += [record.offset for record in iter_records(bytes_) if start <= record.offset < stop]
        assert read == [record.offset for _, bytes_ in fetched(log) for record in iter_records(bytes_)]
    finally:
        shutil.rmtree(folder)


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damage_anywhere_serves_only_what_was_appended_and_loses_only_what_it_touched(
    no_fsync: None, data: st.DataObject
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="headrace-log-"))
    try:
        log = open_log(folder, segment_bytes=400)
        for values in data.draw(st.lists(st.lists(st.binary(max_size=30), min_size=1, max_size=5), min_size=2, max_size=15)):
            log.append(batch(*values), NOW_MS)
        log.close()
        made = fetched(log)
        touched = set()
        for _ in range(data.draw(st.integers(1, 3))):
            start = data.draw(st.integers(0, log.log_end_offset - 1))
            stop = min(log.log_end_offset, start + data.draw(st.integers(1, 150)))
            junk = data.draw(st.binary(min_size=stop - start, max_size=stop - start))
            for facts in log.segments:
                from_offset, to_offset = max(start, facts.base_offset), min(stop, facts.end_offset)
                if from_offset < to_offset:
                    with (folder / f"{facts.base_offset:020d}.log").open("r+b") as file:
                        file.seek(from_offset - facts.base_offset)
                        file.write(junk[from_offset - start : to_offset - start])
            touched |= {header.position for header, _ in made if header.position < stop and start < header.next_offset}
        again = open_log(folder, segment_bytes=400)
        served = {header.position: bytes_ for header, bytes_ in fetched(again)}
        for header, bytes_ in made:
            if header.position in served:
                there = served[header.position]
                assert there[:12] + there[16:] == bytes_[:12] + bytes_[16:]
            else:
                assert header.position in touched
        assert set(served) <= {header.position for header, _ in made}
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("steps", [[], [("expire",)], [("kill",), ("kill",)]])
def test_an_empty_log_stays_an_empty_log(tmp_path: Path, steps: list[tuple[str]]) -> None:
    log = open_log(tmp_path)
    for (step,) in steps:
        if step == "expire":
            log.expire(NOW_MS + 99 * DAY_MS)
        else:
            log = open_log(tmp_path)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes, log.bad_ranges, log.gaps) == (0, 0, 0, [], [])
    assert log.read(0, 100) is None
    assert check(tmp_path) == []
