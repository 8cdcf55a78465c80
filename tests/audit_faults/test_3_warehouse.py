"""A Parquet file swapped for one with a row less and a row doubled: the sums agree, the rows do not.

Issue: a Parquet row cut, or a file deleted, after the count was COMPLETE for ever.
"""

import time

from headrace.local.drills import parquet_surgery
from headrace.local.drills.expected import Expected
from headrace.spark.warehouse.hours import hour_name
from tests.support.platform import Platform

from .topics import WITH_WAREHOUSE, Topic, in_window


def test_a_swapped_file_is_told_with_the_rows_that_it_lacks_and_has_twice_and_mended_by_a_reload(platform: Platform) -> None:
    topic = Topic(platform, WITH_WAREHOUSE).make().log(20, batch=5).await_mirrored()
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
