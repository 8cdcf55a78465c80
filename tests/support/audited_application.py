"""An audited application and an unaudited one, against a real broker."""

from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Producer as ForeignProducer

from headrace.audit.publisher import ProducerReporter
from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.client.fetch.fetcher import Fetcher
from headrace.client.producer.delivery import Delivery
from headrace.client.producer.producer import Producer
from headrace.wire.messages import produce

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
        assert delivery.error is None, delivery.error
        self.reporter.ended(delivery.first_timestamp_ms - delivery.first_timestamp_ms % W, delivery)

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


def copy_log(source: str, destination: str, topic: str) -> None:
    """Append every batch of the topic's partition 0 to a fresh topic elsewhere, byte for byte: a mirror's result."""
    here, there = Cluster(source), Cluster(destination)
    create_topic(there, topic, len(here.partitions(topic)))
    fetcher = Fetcher(here, max_wait_ms=0)
    leader = there.leader(topic, 0)
    at = 0
    while (fetched := fetcher.fetch({TopicPartition(topic, 0): at})[0]).next_offset > at:
        for header, batch in fetched.batches:
            pieces = [(topic, [produce.ProducePieces(0, [batch])])]
            body = leader.request(0, 9, produce.encode_pieces(9, -1, 5_000, pieces))
            answer = produce.decode_response(9, body).topics[0].partitions[0]
            assert (answer.error_code, answer.base_offset) == (0, header.base_offset)
        at = fetched.next_offset
    here.close()
    there.close()
