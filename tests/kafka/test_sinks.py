"""A sink that reads Apache Kafka, killed with -9: each record is in one file, and the audit is told of each, once. And one
behind a mirror that numbers again: its row in the audit of our live cluster.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.runtime.layout import AUDIT_TOPIC
from tests.kafka.copying import Copying, make_topic, read_all, send
from tests.support.audit_service import AuditService
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess
from tests.support.processes import Process, eventually
from tests.support.registry import RegistryProcess
from tests.support.spark_stage import CLICK, click
from tests.support.told_by_ranges import ToldByRanges

pytestmark = pytest.mark.whole

COUNT = 300
KILLS = 3


def test_what_a_sink_has_is_told_to_the_audit_once_though_it_is_killed(
    other_kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(other_kafka, topic)
    with RegistryProcess(tmp_path / "registry", other_kafka.address, f"_schemas.{topic}") as registry:
        schema_id = registry.register(f"{topic}-value", CLICK)[1]["id"]
        words = ["sink", "files", "--topic", topic, "--folder", str(tmp_path / "out"), "--roll-ms", "200"]
        words += ["--bootstrap", other_kafka.address, "--registry", registry.url, "--session-timeout-ms", "6000"]
        sink = Process([sys.executable, "-m", "headrace.cli.main", *words], tmp_path / "sink.log")

        def written() -> Counter[int]:
            files = (tmp_path / "out").glob("*/*/*/*.ndjson")
            return Counter(json.loads(line)["offset"] for path in files for line in path.read_text().splitlines())

        def told() -> ToldByRanges:
            found = map(decode, read_all(other_kafka.address, [(AUDIT_TOPIC, 0)])[AUDIT_TOPIC, 0])
            tier = f"sink:sink-files-{topic}"
            return ToldByRanges(one for one in found if isinstance(one, RangeReport) and (one.tier, one.topic) == (tier, topic))

        def is_told() -> bool:
            kinds = {offset: [kind for _, kind, _ in words] for offset, words in told().records.get(0, {}).items()}
            return kinds == {offset: ["quarantined" if offset == COUNT else "held"] for offset in range(2 * COUNT + 1)}

        try:
            for number in range(KILLS):
                sink.start()
                send(other_kafka, topic, [click(schema_id, at) for at in range(COUNT // KILLS)])
                least = (number + 1) * COUNT // KILLS // 2
                eventually(lambda least=least: len(written()) > least, what=f"files; {sink.output()[-1500:]}", within_ms=90_000)
                sink.kill()
            send(other_kafka, topic, [b"no avro", *(click(schema_id, at) for at in range(COUNT))])
            sink.start()
            wanted = Counter(offset for offset in range(2 * COUNT + 1) if offset != COUNT)
            eventually(lambda: written() == wanted, what="each record in one file", within_ms=90_000)
            eventually(is_told, what="each record told", within_ms=90_000)
            assert sink.stop() == 0, sink.output()[-3000:]
        finally:
            sink.kill()


SETTINGS = """
[service]
discover_ms = 200
judge_every_ms = 200
mirror = "{mirror}"
[deadlines_ms]
default = 20000
[topics.default]
tiers = ["live", "mirror", "offline"]
"""


def test_behind_a_mirror_that_numbers_anew_its_offsets_are_translated(
    ours: BrokerProcess, kafka: KafkaProcess, topic: str, tmp_path: Path
) -> None:
    make_topic(ours, topic)
    tier = f"sink:sink-files-{topic}@offline"
    service = AuditService(tmp_path / "audit", ours.address, kafka.address, settings=SETTINGS.format(mirror=topic))
    with (
        RegistryProcess(tmp_path / "registry", ours.address, f"_schemas.{topic}") as registry,
        Copying(tmp_path, ours, kafka, name=topic, words=("--topics", topic, "--no-schemas")) as copying,
    ):
        schema_id = registry.register(f"{topic}-value", CLICK)[1]["id"]
        words = ["sink", "files", "--topic", topic, "--folder", str(tmp_path / "out"), "--roll-ms", "200", "--cluster", "offline"]
        words += ["--bootstrap", kafka.address, "--audit-bootstrap", ours.address, "--registry", registry.url]
        sink = Process([sys.executable, "-m", "headrace.cli.main", *words, "--session-timeout-ms", "6000"], tmp_path / "sink.log")

        def row() -> tuple[object, ...]:
            """Return verdict of window and row, and the row's counts, of all windows together."""
            found = service.windows(topic).values()
            mine = [one["sinks"].get(tier, {}) for one in found]
            verdicts = {(one["verdict"], of.get("verdict")) for one, of in zip(found, mine, strict=True)}
            return verdicts, sum(of.get("count") or 0 for of in mine), sum(of.get("quarantined", 0) for of in mine)

        try:
            service.start()
            copying.start()
            sink.start()
            total = 0
            for portion in range(4):  # each a transaction of the mirror's, or more: a marker is behind each in the copy
                send(ours, topic, [click(schema_id, at) for at in range(COUNT)])
                total += COUNT
                if portion == 2:
                    send(ours, topic, [b"no avro"])
                wanted = ({("COMPLETE", "COMPLETE")}, total, int(portion >= 2))
                eventually(lambda wanted=wanted: row() == wanted, what=f"{wanted}; {row()}", within_ms=120_000)
                if portion == 1:
                    sink.kill()
                    sink.start()
            assert sink.stop() == 0, sink.output()[-3000:]
        finally:
            sink.kill()
            service.process.kill()
