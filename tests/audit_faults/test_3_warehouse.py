"""The warehouse: a Parquet file swapped for one of as many rows, and records that expired before they were loaded.

Issue: a Parquet row cut, or a file deleted, after the count was COMPLETE for ever.
"""

import time

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.local.drills import parquet_surgery
from headrace.local.drills.expected import Expected
from headrace.spark.warehouse.hours import hour_name
from tests.support.platform import Platform
from tests.support.processes import eventually

from .topics import EXPIRED_EARLY, SWAPPED, WITHIN_S, Topic, in_window


def test_a_swapped_file_is_told_with_the_rows_that_it_lacks_and_has_twice_and_mended_by_a_reload(platform: Platform) -> None:
    topic = Topic(platform, SWAPPED).make().log(20, batch=5).await_mirrored()
    platform.headrace("load", topic.name, "--step", "load")
    platform.headrace("load", topic.name, "--step", "count")
    platform.await_complete(topic.name)
    offsets = in_window(topic.live(), topic.windows[1])
    folder = platform.layout.warehouse / "tables" / topic.name / "data"
    path = parquet_surgery.file_with(folder, offsets[4])
    parquet_surgery.swap(path, without=offsets[4], doubled=offsets[11])
    assert sorted(parquet_surgery.offsets_in(path)).count(offsets[11]) == 2
    platform.headrace("load", topic.name, "--step", "count")
    expected = Expected(window_start_ms=topic.windows[1], tier="warehouse", missing=(offsets[4],), doubled=(offsets[11],))
    topic.await_told("warehouse: a Parquet file swapped", expected, time.monotonic())
    hour = hour_name(topic.windows[1] // 3_600_000)
    platform.headrace("load", topic.name, "--step", "load", "--reload", hour)
    platform.headrace("load", topic.name, "--step", "count")
    platform.await_complete(topic.name)
    again = [offset for path in folder.glob("*.again-*/**/*.parquet") for offset in parquet_surgery.offsets_in(path)]
    assert sorted(again) == sorted(offset for start in topic.windows for offset in in_window(topic.live(), start))


def test_records_that_expired_before_they_were_loaded_are_lost_by_name_once_the_load_has_told_of_them(platform: Platform) -> None:
    topic = Topic(platform, EXPIRED_EARLY, windows=1).make().log(10).await_mirrored()
    behind = in_window(topic.offline(), topic.windows[0])[4]
    admin = AdminClient({"bootstrap.servers": platform.layout.offline_bootstrap})
    for future in admin.delete_records([TopicPartition(topic.name, 0, behind)]).values():
        future.result(30)
    platform.headrace("load", topic.name, "--step", "load")
    platform.headrace("load", topic.name, "--step", "count")

    def told() -> bool:
        window = platform.windows(topic.name)[topic.windows[0]]
        assert (window["verdict"], window["accounted"], window["missing"]) == ("ACCOUNTED", {"expired": 4}, 0), window
        assert (window["tiers"]["offline"], window["tiers"]["warehouse"]) == (10, 6), window
        return True

    eventually(told, within_ms=WITHIN_S * 1000, every_ms=200, what="four records told by name")
    folder = platform.layout.warehouse / "tables" / topic.name / "data"
    loaded = sorted(offset for path in folder.glob("**/*.parquet") for offset in parquet_surgery.offsets_in(path))
    assert loaded == in_window(topic.offline(), topic.windows[0]), "another client reads the same six"
