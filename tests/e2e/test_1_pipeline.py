"""The demo on a real log, twice, and on a frontend: every window of every tier equal to a count made from the file alone."""

import json
import re
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tests.support.access_logs import WINDOW_MS, real_or_like_it, time_ms, window_counts
from tests.support.platform import Platform

WINDOWS = 100
"""How many windows one page shows."""
TIERS = {"producer", "live", "mirror", "offline", "warehouse", "consumer:request-rate"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    return real_or_like_it(tmp_path_factory.mktemp("logs"))


def balanced(report: list[dict[str, Any]], file_counts: Counter[int], bad_window: int, times: int) -> None:
    """Assert that each window of the file is in the report and COMPLETE, and that each tier counts the file's usable lines."""
    by_start = {window["window_start_ms"]: window for window in report}
    assert by_start.keys() >= file_counts.keys()
    for start, lines in file_counts.items():
        window = by_start[start]
        quarantined = times if start == bad_window else 0
        assert window["verdict"] == "COMPLETE", window
        assert window["quarantined"] == quarantined, window
        assert window["tiers"].keys() == TIERS, window
        assert set(window["tiers"].values()) == {lines * times - quarantined}, window
        assert (window["missing"], window["doubled"], window["altered"], window["first_bad_tier"]) == (0, 0, 0, None), window
        assert window["window_end_ms"] - start == WINDOW_MS


def cut_line_window(path: Path, number: int) -> int:
    at_ms = time_ms(path.read_bytes().split(b"\n")[number - 1])
    return at_ms - at_ms % WINDOW_MS


def test_the_demo_on_a_log_is_complete_in_every_tier(platform: Platform, log: tuple[Path, int]) -> None:
    path, cut_line = log
    said = platform.headrace("demo", "--log", str(path))
    counts = window_counts(path)
    balanced(platform.report("access_log"), counts, cut_line_window(path, cut_line), times=1)
    assert f"{len(counts)} of {len(counts)} windows are COMPLETE" in said

    assert platform.query("SELECT count(*) AS n FROM access_log") == [{"n": 9_999}]
    assert platform.query("SELECT count(*) AS n FROM access_log_all") == [{"n": 9_999}]
    statuses = platform.query("SELECT status, count(*) AS n FROM access_log GROUP BY status")
    # an independent reading of the file: the status is the first number after the quoted request
    from_file = Counter(
        int(line.split(b'" ', 1)[1].split()[0])
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
        if number != cut_line
    )
    assert {row["status"]: row["n"] for row in statuses} == from_file

    quarantined = json.loads(platform.headrace("quarantine", "list", "--topic", "access_log", "--json"))
    assert [record["origin"]["line"] for record in quarantined] == [cut_line]

    with urllib.request.urlopen(f"{platform.layout.audit_url}/?topic=access_log", timeout=20) as answer:
        page = answer.read().decode()
    shown = Counter(re.findall(r'<td class="w v-([A-Z]+)">', page.split("</table>")[0]))
    assert shown == {"COMPLETE": min(WINDOWS, len(counts))}, "the audit's address leads to the console: one row a window"


def test_the_demo_twice_on_a_kept_platform_is_twice_the_events_and_still_complete(
    platform: Platform, log: tuple[Path, int]
) -> None:
    path, cut_line = log
    said = platform.headrace("demo", "--log", str(path))
    counts = window_counts(path)
    balanced(platform.report("access_log"), counts, cut_line_window(path, cut_line), times=2)
    tiers = dict(re.findall(r"^  (\S+) +([\d,]+)$", said, re.MULTILINE))
    assert tiers == dict.fromkeys(TIERS, "9,999"), "a second demo tells of its own events"
    statuses = re.findall(r"^(\d{3}) +(\d+)$", said, re.MULTILINE)
    assert sum(int(count) for _, count in statuses) == 9_999, "and asks the warehouse for its own rows"
    assert f"{len(counts)} of these windows hold events of earlier demos, too" in said
    assert platform.query("SELECT count(*) AS n FROM access_log") == [{"n": 19_998}]


def test_loading_once_more_loads_nothing_twice(platform: Platform) -> None:
    before = platform.query("SELECT count(*) AS n FROM access_log_all")
    platform.headrace("load", "access_log")
    assert platform.query("SELECT count(*) AS n FROM access_log_all") == before
    doubles = "SELECT _topic_partition, _offset FROM access_log_all GROUP BY ALL HAVING count(*) > 1"
    assert platform.query(doubles) == []


def test_the_live_count_of_requests_per_minute_is_that_of_the_file(platform: Platform, log: tuple[Path, int]) -> None:
    path, cut_line = log
    minutes: Counter[int] = Counter()
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if number != cut_line:
            at_ms = time_ms(line)
            minutes[at_ms - at_ms % 60_000] += 2  # the demo has run twice
    rates = json.loads(platform.headrace("rates", "--topic", "access_log", "--json"))
    assert {row["minute_start_ms"]: row["requests"] for row in rates} == minutes


def test_confluent_s_own_deserializer_decodes_every_event_through_our_registry(platform: Platform) -> None:
    registry = SchemaRegistryClient({"url": platform.layout.registry_url})
    decode = AvroDeserializer(registry)
    ends = platform.log_ends(platform.layout.live_bootstrap, "access_log")
    consumer = Consumer({"bootstrap.servers": platform.layout.live_bootstrap, "group.id": "decode", "enable.partition.eof": True})
    consumer.assign([TopicPartition("access_log", partition, 0) for partition in ends])
    statuses: Counter[int] = Counter()
    open_partitions = set(ends)
    while open_partitions:
        message = consumer.poll(30)
        assert message is not None, f"nothing came from partitions {open_partitions}"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            open_partitions.discard(message.partition())
            continue
        event = decode(message.value(), SerializationContext("access_log", MessageField.VALUE))
        statuses[event["status"]] += 1
        assert message.timestamp()[1] == int(event["event_time"].timestamp() * 1000)
    consumer.close()
    rows = platform.query("SELECT status, count(*) AS n FROM access_log_all GROUP BY status")
    assert statuses == {row["status"]: row["n"] for row in rows}


def test_the_demo_without_a_log_drives_a_frontend_and_is_complete_though_its_hour_still_runs(platform: Platform) -> None:
    said = platform.headrace("demo")
    assert "The running hour is not published yet" in said
    running = [window for window in platform.report("access_log") if window["window_start_ms"] > 1_700_000_000_000]
    assert sum(window["tiers"]["producer"] for window in running) == 3_000
    assert sum(window["tiers"]["warehouse"] for window in running) == 3_000
