"""A sink's row that becomes wrong, and right again: told by a running audit service's webhook and on its `/metrics`."""

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.audit.model.codec import encode
from headrace.audit.model.messages import RangeReport, RangeWindow, Stretch
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.log_offsets import LATEST, log_offsets
from headrace.client.fetch.read_range import read_range
from headrace.client.producer.producer import Producer
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.wire.batch.record_batch import iter_records
from tests.support.audit_service import AuditService
from tests.support.live_side import LiveSide
from tests.support.processes import eventually

START_MS = 1_790_000_400_000
SINK = "sink:made-up"
SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
webhook_url = "{url}"
[topics.default]
tiers = ["live"]
"""


@pytest.fixture
def posts() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of somebody's server, and what was posted there."""
    found: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", found
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_row_that_becomes_wrong_and_right_again_is_told(
    tmp_path: Path, live: LiveSide, posts: tuple[str, list[dict[str, Any]]]
) -> None:
    topic = f"told-{uuid.uuid4().hex[:8]}"
    url, posted = posts
    cluster = Cluster(live.bootstrap)
    create_topic(cluster, topic, partitions=1)
    producer = Producer(cluster)
    for _ in range(5):
        producer.send(topic, b"x", partition=0, timestamp_ms=START_MS)
    producer.flush(20_000)
    end = log_offsets(cluster, {TopicPartition(topic, 0): LATEST})[topic, 0]
    offsets = [record.offset for _, batch in read_range(cluster, topic, 0, 0, end) for record in iter_records(batch)]
    assert len(offsets) == 5

    def tell(held: list[int]) -> None:
        """Say what a sink says that has these records, and put none into quarantine."""
        windows = {START_MS: RangeWindow(held=tuple(Stretch(at, 1) for at in held))}
        report = RangeReport(
            tier=SINK, instance="i", at_ms=1, topic=topic, partition=0, from_offset=0, to_offset=end, windows=windows
        )
        producer.send(AUDIT_TOPIC, encode(report), partition=0, timestamp_ms=START_MS)
        producer.flush(20_000)

    def metric(name: str) -> dict[str, float]:
        """Return verdict (or nothing) → value, of the sink."""
        with urlopen(f"{service.url}/metrics", timeout=20) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        samples = [one for family in families for one in family.samples if one.name == f"headrace_audit_sink_{name}"]
        mine = [one for one in samples if (one.labels["topic"], one.labels["sink"]) == (topic, SINK)]
        return {one.labels.get("verdict", ""): one.value for one in mine}

    def told() -> list[tuple[str, str, int]]:
        mine = [one for post in posted for one in post.get("sinks", ()) if (one["topic"], one["sink"]) == (topic, SINK)]
        return [(one["from_verdict"] or "", one["to_verdict"], one["missing"]) for one in mine]

    service = AuditService(tmp_path / "audit", live.bootstrap, settings=SETTINGS.format(url=url))
    try:
        service.start()
        tell(offsets[1:])
        eventually(lambda: [one[1:] for one in told()] == [("INCOMPLETE", 1)], what=f"the notice; {posted}", within_ms=60_000)
        assert (metric("windows"), metric("missing_records")) == ({"INCOMPLETE": 1}, {"": 1})
        tell(offsets)
        eventually(lambda: told()[1:] == [("INCOMPLETE", "COMPLETE", 0)], what=f"its end; {posted}", within_ms=60_000)
        assert (metric("windows"), metric("missing_records"), metric("doubled_records")) == ({"COMPLETE": 1}, {"": 0}, {"": 0})
        turns = [one["to_verdict"] for post in posted for one in post["changes"] if one["topic"] == topic]
        assert turns[-1] == "COMPLETE"
        assert not {"INCOMPLETE", "DOUBLED"} & set(turns), "no verdict came of a sink"
    finally:
        service.process.kill()
        producer.close(1_000)
        cluster.close()
