"""The whole platform with Apache Kafka at both ends: the demo's counts against the raw input, kills, planted faults.

The oracle shares nothing with the project: the raw file by a regular expression, both clusters through confluent-kafka (read
committed), the warehouse's files through duckdb. `make test-kafka` runs this; one platform for all, in the order of the file.
"""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.access_logs import generate, window_counts
from tests.support.platform import Platform, free_shift
from tests.support.processes import eventually
from tests.support.tier_counts import in_cluster, in_warehouse

pytestmark = pytest.mark.whole

TOPIC = "access_log"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    running = Platform(tmp_path_factory.mktemp("kafka-platform"), free_shift(12_000), engine="kafka")
    try:
        yield running.up()
    finally:
        running.down()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 2015: Kafka's own retention would delete it within minutes."""
    return generate(tmp_path_factory.mktemp("raw") / "access.log", lines=3_000, hours=6, seed=31)


def assert_equal_everywhere(platform: Platform, raw: Path) -> None:
    expected = window_counts(raw)
    assert in_cluster(platform.layout.live_bootstrap, TOPIC) == expected
    assert in_cluster(platform.layout.offline_bootstrap, TOPIC) == expected
    assert in_warehouse(platform, TOPIC) == expected
    windows = platform.windows(TOPIC)
    for start, count in expected.items():
        assert windows[start]["verdict"] == "COMPLETE", windows[start]
        assert set(windows[start]["tiers"].values()) == {count}, windows[start]


def await_equal_everywhere(platform: Platform, raw: Path) -> None:
    """The same once brokers that were killed have been read again: until then windows are OPEN."""

    def is_equal() -> bool:
        assert_equal_everywhere(platform, raw)
        return True

    eventually(is_equal, within_ms=180_000, every_ms=1_000, what="the same in every tier")


def test_a_log_of_years_ago_is_the_same_in_every_tier_as_in_the_raw_file(platform: Platform, raw: Path) -> None:
    platform.headrace("demo", "--log", str(raw))
    assert_equal_everywhere(platform, raw)


def test_it_still_is_after_both_brokers_the_mirror_and_a_consumer_were_killed(platform: Platform, raw: Path) -> None:
    """Kafka looks for expired segments every five seconds here, and once at its start."""
    for name in ("broker-live", "broker-offline", "mirror", "consumer-1"):
        platform.kill(name)
    await_equal_everywhere(platform, raw)


def test_it_still_is_a_quarter_of_an_hour_later_and_after_another_restart(platform: Platform, raw: Path) -> None:
    """By then Kafka's own defaults have deleted what is older than a week, and the segments' delay (a minute) is over."""
    until = time.monotonic() + 15 * 60
    while time.monotonic() < until:
        assert in_cluster(platform.layout.offline_bootstrap, TOPIC) == window_counts(raw)
        time.sleep(min(60, max(0, until - time.monotonic())))
    for name in ("broker-live", "broker-offline"):
        platform.kill(name)
    await_equal_everywhere(platform, raw)


def test_events_that_are_logged_while_brokers_and_mirror_are_killed_arrive_once(platform: Platform, tmp_path: Path) -> None:
    more = generate(tmp_path / "more.log", lines=3_000, hours=6, seed=32)
    replay = platform.in_background("replay", str(more), "--topic", "killed")
    for name in ("mirror", "broker-offline", "broker-live", "mirror"):
        platform.kill(name)
    assert replay.wait(within_ms=240_000) == 0
    platform.headrace("load", "killed")
    platform.headrace("audit", "report", "--topic", "killed", "--wait", "COMPLETE", "120")
    expected = window_counts(more)
    assert in_cluster(platform.layout.live_bootstrap, "killed") == expected
    assert in_cluster(platform.layout.offline_bootstrap, "killed") == expected
    assert in_warehouse(platform, "killed") == expected


def test_an_event_of_the_day_after_tomorrow_is_taken(platform: Platform, tmp_path: Path) -> None:
    ahead = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(time.time() + 2 * 86_400))
    line = tmp_path / "ahead.log"
    line.write_text(f'127.0.0.1 - - [{ahead}] "GET / HTTP/1.1" 200 12 "-" "x"\n')
    platform.headrace("replay", str(line), "--topic", "ahead")
    eventually(
        lambda: sum(in_cluster(platform.layout.offline_bootstrap, "ahead").values()) == 1,
        within_ms=60_000,
        what="the event of tomorrow in the offline cluster",
    )


def _is_named(window: dict[str, Any], count: int) -> bool:
    assert (window["verdict"], window["accounted"], window["missing"]) == ("ACCOUNTED", {"expired": count}, 0), window
    return True


def test_what_is_deleted_from_the_offline_log_before_it_is_loaded_is_named_with_its_number(
    platform: Platform, tmp_path: Path
) -> None:
    """Fault: of a topic that was never loaded it was UNKNOWN, although `docs/AUDIT.md` promises the number."""
    platform.signal("airflow-scheduler", signal.SIGSTOP)  # nobody else loads now
    try:
        few = generate(tmp_path / "few.log", lines=200, hours=1, seed=33)
        platform.headrace("replay", str(few), "--topic", "lost")
        start, count = window_counts(few).most_common(1)[0]
        eventually(
            lambda: platform.windows("lost").get(start, {}).get("tiers", {}).get("offline") == count,
            within_ms=60_000,
            what="the copy counted by the audit",
        )
        admin = AdminClient({"bootstrap.servers": platform.layout.offline_bootstrap})
        ends = platform.log_ends(platform.layout.offline_bootstrap, "lost")
        gone = admin.delete_records([TopicPartition("lost", partition, end) for partition, end in ends.items() if end])
        for future in gone.values():
            future.result(30)
        platform.headrace("load", "lost")
        eventually(lambda: _is_named(platform.windows("lost")[start], count), within_ms=240_000, what="the loss named")
    finally:
        platform.signal("airflow-scheduler", signal.SIGCONT)


def test_a_record_that_nobody_mirrored_is_told_as_surplus_of_the_offline_tier(platform: Platform, raw: Path) -> None:
    start = min(window_counts(raw))
    producer = Producer({"bootstrap.servers": platform.layout.offline_bootstrap})
    producer.produce(TOPIC, b"foreign", partition=0, timestamp=start + 5)
    assert producer.flush(30) == 0
    platform.headrace("load", TOPIC, exit_code=None)
    eventually(lambda: platform.windows(TOPIC)[start]["verdict"] == "DOUBLED", within_ms=120_000, what="the surplus told")
    assert platform.windows(TOPIC)[start]["first_bad_tier"] == "offline"
