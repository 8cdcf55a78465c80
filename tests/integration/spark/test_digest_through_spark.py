"""What the tasks decoded is what Spark writes: every Avro type through a real load, and times at the ends of what can be told."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace.spark.warehouse.file_rows import join_rows, read_file
from tests.support.spark_stage import CLICK, LONG_AGO_MS, Stage, click, event

RICH: dict[str, Any] = {
    "type": "record",
    "name": "Rich",
    "fields": [
        {"name": "ratio", "type": "double"},
        {"name": "small", "type": "float"},
        {"name": "flag", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "micros", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}},
        {"name": "either", "type": ["null", "int", "string"]},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "n", "type": ["null", "long"]},
                        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                    ],
                },
            },
        },
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
    ],
}


def rich(number: int) -> dict[str, Any]:
    now = datetime(2026, 11, 23, 1, 2, 3, 456_000, tzinfo=UTC)
    return {
        "ratio": [0.0, -0.0, math.nan, math.inf, 1e-320][number % 5],
        "small": 0.1 * number,
        "flag": number % 2 == 0,
        "raw": bytes(range(number % 7)),
        "day": [date(1500, 2, 3), date(1969, 12, 31), date(2026, 1, 1)][number % 3],
        "at": [datetime(1400, 1, 1, tzinfo=UTC), now][number % 2],
        "micros": [None, now.replace(microsecond=number)][number % 2],
        "price": Decimal(number * 7 - 100) / 8,
        "either": [None, number, f"text {number}"][number % 3],
        "tags": {f"k{at}": None if at == 1 else "v" for at in range(number % 4)},
        "items": [{"n": None if at == 0 else at, "when": now} for at in range(number % 3)],
        "place": {"city": f"Zürich {number}" * (number % 90)},
    }


def test_the_digests_of_what_was_decoded_are_those_of_sparks_files(stage: Stage) -> None:
    schema_id = stage.register(RICH)
    stage.create(2)
    stage.send([(n % 2, LONG_AGO_MS + n * 60_000, event(schema_id, RICH, rich(n))) for n in range(240)])
    assert stage.load(splits=5).row_count == 240
    (run,) = stage.warehouse.existing_table(stage.topic).runs()
    rows = join_rows([read_file(path)[1] for path in run.files])
    assert len(rows) == 240
    for partition in (0, 1):
        mine = rows.where(rows.partitions == partition)
        assert mine.hashes.totals(mine.windows) == run.record.digests[partition]


@pytest.mark.situation(
    "event times",
    "events beyond 2262 or the year 10000, in the warehouse",
    shown="quarantined, with an address; the load continues",
    when="with the load",
    do="`headrace quarantine list`",
)
def test_events_of_impossible_times_go_aside_and_the_load_goes_on(stage: Stage) -> None:
    """Faults: one event of the year 10000 stops its topic's loads for ever, one of 2^61 ms its publishing; an event's own instant
    beyond the year 9999 does the same through the file's statistics."""
    times = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
    }
    plain = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "long"}]}
    clicks, instants = stage.register(CLICK), stage.register(times)
    stage.create(1)
    year_10000_ms = 253_402_300_800_000
    stage.send(
        [
            (0, LONG_AGO_MS, click(clicks, 1)),
            (0, year_10000_ms, click(clicks, 2)),
            (0, 1 << 61, click(clicks, 3)),
            (0, LONG_AGO_MS, event(instants, plain, {"at": year_10000_ms * 30})),
            (0, 253_402_300_799_999, click(clicks, 5)),
        ]
    )
    done = stage.load()
    assert (done.row_count, dict(done.quarantined)) == (3, {"time_out_of_range": 2})
    (run,) = stage.warehouse.existing_table(stage.topic).runs()
    aside = {start: sum(one.count for one in found) for start, found in run.record.quarantined[0].items()}
    assert aside == {at_ms - at_ms % 600_000: 1 for at_ms in (year_10000_ms, 1 << 61)}
    stage.send([(0, LONG_AGO_MS, click(clicks, 6))])
    assert stage.load().row_count == 1
