"""An audited application and an unaudited one, against a real broker."""

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Producer as ForeignProducer

from headrace.audit.publisher import ProducerReporter
from headrace.client.connection.cluster import Cluster
from headrace.client.producer.delivery import Delivery
from headrace.client.producer.producer import Producer

W = 600_000


class AuditedApplication:
    """Our producer with a reporter beside it; a test may read the counts of both."""

    def __init__(self, bootstrap: str, topic: str, instance: str = "host/app/1", cluster_topics: Iterable[str] = ()) -> None:
        self.topic = topic
        self.cluster = Cluster(bootstrap)
        self.producer = Producer(self.cluster, window_ms=W, on_delivery=self._delivered)
        self.side = Producer(self.cluster, linger_ms=1)
        self.reporter = ProducerReporter(instance=instance, sender=self.side)
        self.producer.identify()
        self.reporter.announce([topic], self.producer.producer_ids)

    def _delivered(self, delivery: Delivery) -> None:
        start = delivery.first_timestamp_ms - delivery.first_timestamp_ms % W
        assert delivery.error is None, delivery.error
        self.reporter.acknowledged(delivery.topic, delivery.partition, start, delivery.record_count)

    def log(self, timestamps: Iterable[int], *, partition: int | None = None) -> Counter[int]:
        """Send one record for each time, wait until all are acknowledged, return how many fell in each window."""
        counts: Counter[int] = Counter()
        for at in timestamps:
            self.producer.send(self.topic, b"x" * 100, partition=partition, timestamp_ms=at)
            counts[at - at % W] += 1
        self.producer.flush(20_000)
        return counts

    def seal(self) -> None:
        self.reporter.seal_and_close()

    def close(self) -> None:
        self.producer.close(5_000)
        self.side.close(5_000)
        self.cluster.close()


def log_unaudited(bootstrap: str, topic: str, timestamps: Iterable[int]) -> Counter[int]:
    """Send with a client from another project; return how many fell in each window."""
    producer = ForeignProducer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    counts: Counter[int] = Counter()
    for at in timestamps:
        producer.produce(topic, b"y" * 100, timestamp=at)
        counts[at - at % W] += 1
    assert producer.flush(20) == 0
    return counts
