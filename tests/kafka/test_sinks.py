"""A sink that reads Apache Kafka, killed with -9: each record is in one file, and the audit is told of each, once."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import RangeReport
from headrace.runtime.layout import AUDIT_TOPIC
from tests.kafka.copying import make_topic, read_all, send
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
