"""What the topics hold, read with confluent-kafka: a client that is not ours."""

import io
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator

import confluent_kafka
import fastavro

from headrace.audit.model.codec import decode
from headrace.audit.model.messages import ProducerReport
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.wire.quarantine_record import QuarantineRecord, quarantine_topic
from tests.chaos_sdk.application import SCHEMA
from tests.chaos_sdk.claims import Held, Told
from tests.support.told_by_producers import told

READ_TIMEOUT_S = 60
_PARSED = fastavro.parse_schema(SCHEMA)
_FRAME_BYTES = 5
"""Magic byte and schema id, before the Avro body."""


def values_of(bootstrap: str, topic: str) -> Iterator[tuple[int, bytes]]:
    """Yield (partition, value) of each record, a partition's in their order; nothing for a topic that is not there."""
    ends = 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
        }
    )
    try:
        found = consumer.list_topics(timeout=READ_TIMEOUT_S).topics.get(topic)
        if found is None or found.error is not None:
            return
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in found.partitions])
        deadline = time.monotonic() + READ_TIMEOUT_S
        while ends < len(found.partitions):
            assert time.monotonic() < deadline, f"{topic} was not read to its end within {READ_TIMEOUT_S} s"
            for message in consumer.consume(10_000, timeout=0.05):  # it waits for all 10,000
                error, partition, value = message.error(), message.partition(), message.value()
                if error is not None:
                    assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                    ends += 1
                elif partition is not None and value is not None:
                    yield partition, value
    finally:
        consumer.close()


def held(bootstrap: str, topic: str) -> Held:
    """Return what the topic and its quarantine hold, by event id."""
    found = Held()
    for partition, value in values_of(bootstrap, topic):
        event: dict[str, str] = fastavro.schemaless_reader(io.BytesIO(value[_FRAME_BYTES:]), _PARSED, None)  # type: ignore[assignment]
        found.rows.append((partition, event["id"]))
    for _, value in values_of(bootstrap, quarantine_topic(topic)):
        found.quarantined.append(json.loads(QuarantineRecord.from_json(value).payload)["id"])
    return found


def told_of(bootstrap: str, topic: str) -> dict[str, Told]:
    """Return what the audit was told of each run that logs to the topic, by instance."""
    reports: dict[str, list[ProducerReport]] = defaultdict(list)
    for _, value in values_of(bootstrap, AUDIT_TOPIC):
        report = decode(value)
        if isinstance(report, ProducerReport) and topic in report.topics:
            reports[report.instance].append(report)
    return {instance: _told(of) for instance, of in reports.items()}


def _told(reports: Iterable[ProducerReport]) -> Told:
    losses: dict[str, int] = defaultdict(int)
    in_order = list(reports)
    for window in told(in_order).values():
        for name, count in window.losses.items():
            losses[name] += count
    return Told(losses, any(report.state == "closed" for report in in_order))
