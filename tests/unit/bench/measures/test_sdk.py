"""What the measure of the SDK makes of a driver's run, and that the driver's events are what it says they are."""

import io
import json
import subprocess
import sys

import fastavro
import pytest

from bench.drivers.python import events
from bench.drivers.run import Driven
from bench.measures.sdk import figures_of_calls


def _driven(*, is_paced: bool) -> Driven:
    more = {"p50_us": 3.0, "is_paced": is_paced}
    return Driven(count=1_000, seconds=1.0, client_cpu_s=0.02, client_thread_s=0.01, server_cpu_s=0.0, more=more)


def test_only_a_caller_that_never_waits_has_processor_time_for_each_event() -> None:
    assert figures_of_calls(_driven(is_paced=False), is_whole=True) == {
        "p50_us": 3.0,
        "caller_us": pytest.approx(10.0),
        "in_all_us": pytest.approx(20.0),
    }
    assert figures_of_calls(_driven(is_paced=False), is_whole=False).keys() == {"p50_us", "caller_us"}
    assert figures_of_calls(_driven(is_paced=True), is_whole=True).keys() == {"p50_us"}


def test_the_events_fit_their_schema_and_are_of_the_size_that_the_page_names() -> None:
    parsed = fastavro.parse_schema(events.SCHEMA)
    sizes = []
    for event in events.events():
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {**event, "server": events.SERVER, "event_time": 1_800_000_000_000}, strict=True)
        sizes.append(len(out.getvalue()))
    assert len(parsed["fields"]) == 10
    assert 85 < sum(sizes) / len(sizes) < 95


def test_percentiles_are_of_the_calls_in_microseconds() -> None:
    found = events.percentiles([1_000 * value for value in range(1, 1_001)])
    assert found == {"p50_us": 501.0, "p99_us": 991.0, "p999_us": 1_000.0}
    assert events.percentiles([]) == {}


def test_the_driver_reports_a_run_of_the_writer_alone() -> None:
    words = json.dumps({"client": "fastavro", "count": 50, "per_s": 10_000, "burning_threads": 1})
    done = subprocess.run(
        [sys.executable, "-m", "bench.drivers.python.events", words], input="go\n", capture_output=True, text=True, timeout=60
    )
    ready, line = done.stdout.splitlines()
    assert ready == "ready"
    found = json.loads(line)
    assert found["count"] == 50
    assert found["p999_us"] >= found["p50_us"] > 0
