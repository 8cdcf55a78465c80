"""The mirror's own bounds, reached: batches waiting to be reported, answers of the destination and what they lead to."""

from typing import Any

import pytest

from headrace.audit.model.messages import Skipped, Stretch
from headrace.audit.model.windows import WINDOW_MS
from headrace.audit.publisher import RangeReporter
from headrace.client.connection.cluster import Cluster
from headrace.client.fetch.fetched import TopicPartition
from headrace.mirror.control.governor import Governor
from headrace.mirror.copies import Copies
from headrace.mirror.counting import Counting
from headrace.mirror.destination import Append, Destination
from headrace.mirror.discovery import Discovery
from headrace.mirror.errors import SameCluster
from headrace.mirror.fetching.source_fetch import SourceFetch
from headrace.mirror.forwarder import Forwarder
from headrace.mirror.identical import IdenticalPlacement
from headrace.mirror.partition_copy import Gap, GapKind, PartitionCopy, Phase
from headrace.mirror.process import Mirror, MirrorSettings
from headrace.runtime.clock import ManualClock
from headrace.wire.batch.record_batch import BatchBuilder, BatchHeader, place, read_header
from headrace.wire.errors import ErrorCode
from headrace.wire.messages.produce import ProduceResponsePartition
from tests.support.audit_topic import AuditTopic, ReportedPositions

NAME = TopicPartition("clicks", 0)


def batch_at(offset: int, timestamp_ms: int) -> tuple[BatchHeader, memoryview]:
    builder = BatchBuilder()
    builder.append(timestamp_ms, None, b"event")
    batch = bytearray(builder.build())
    place(batch, offset)
    return read_header(batch), memoryview(batch)


class NoPositions:
    """Nothing was ever reported."""

    def read_many(self, tier: str, names: Any) -> dict[tuple[str, int], int]:
        return {}


def forwarder_of(reporter: RangeReporter, quarantine: Any = None, destination: Any = None) -> Forwarder:
    """Return one of identical copies. Its clusters do not answer."""
    cluster, clock = Cluster("127.0.0.1:1"), ManualClock(1_000)
    destination = destination or Destination(cluster)
    destination.cluster = cluster
    copies, governor, counting = Copies(clock), Governor(), Counting(reporter, NoPositions(), quarantine)
    return Forwarder(
        source=cluster,
        discovery=Discovery(cluster, destination, clock),
        fetching=SourceFetch(cluster, governor, clock),
        placement=IdenticalPlacement(cluster, destination, copies, counting, clock),
        copies=copies,
        counting=counting,
        governor=governor,
        clock=clock,
    )


def begin(forwarder: Forwarder, name: TopicPartition, copy: PartitionCopy) -> None:
    """Let a partition be in this state."""
    forwarder._states.add(name)
    forwarder._states.move(name, copy)


def test_more_batches_than_may_wait_are_reported_before_reading_goes_on() -> None:
    topic, positions = AuditTopic(), ReportedPositions()
    reporter = RangeReporter(tier="mirror", instance="m", sender=topic, positions=positions, most_stretches=3)
    forwarder = forwarder_of(reporter)
    reporter.begin(*NAME, 0)
    batches, offset = [], 0
    for number in range(8):
        batches.append(batch_at(offset, number * WINDOW_MS))
        offset = batches[-1][0].next_offset
    forwarder._counting.count(NAME, batches)
    reporter.publish()
    assert [len(report.windows) for report in topic.ranges] == [3, 3, 2]
    assert positions.noted["mirror", "clicks", 0] == offset
    told = [stretch for report in topic.ranges for window in report.windows.values() for stretch in window.held]
    assert told == [Stretch(header.base_offset, 1, header.crc) for header, _ in batches]


@pytest.mark.parametrize(
    ("copy", "told"),
    [
        pytest.param(
            PartitionCopy(phase=Phase.SKIPPING, counted_to=100, copied_to=100, skip_to=400),
            [(100, 400, (Skipped(100, 400, "expired"),))],
            id="expired before it was copied",
        ),
        pytest.param(
            PartitionCopy(phase=Phase.SKIPPING, counted_to=100, copied_to=300, skip_to=400),
            [(300, 400, (Skipped(300, 400, "expired"),))],
            id="a part was copied and never counted: not lost, untold",
        ),
        pytest.param(
            PartitionCopy(phase=Phase.SKIPPING, counted_to=100, copied_to=400, skip_to=300),
            [(300, 300, ())],
            id="all of it was copied and never counted",
        ),
    ],
)
def test_what_the_source_no_longer_has_is_told_as_expired(
    copy: PartitionCopy, told: list[tuple[int, int, tuple[Skipped, ...]]]
) -> None:
    """Names a fault: records that expired before they were copied were reported as 'mirror silent', their number unknown."""
    topic = AuditTopic()
    reporter = RangeReporter(tier="mirror", instance="m", sender=topic, positions=ReportedPositions())
    forwarder = forwarder_of(reporter)
    begin(forwarder, NAME, copy)
    forwarder._skip()
    assert forwarder.copies()[NAME].phase is Phase.COPYING
    reporter.publish()
    assert [(report.from_offset, report.to_offset, report.skipped) for report in topic.ranges] == told


class NoQuarantine:
    def put(self, *_: Any, **__: Any) -> None:
        pass


@pytest.mark.parametrize(("copied_to", "skipped_from"), [(100, 100), (150, 150), (300, 300)])
def test_what_the_source_cannot_serve_is_told_as_corrupt_unless_the_destination_holds_it(
    copied_to: int, skipped_from: int
) -> None:
    """Names a fault: corrupt stretches counted 0."""
    topic = AuditTopic()
    reporter = RangeReporter(tier="mirror", instance="m", sender=topic, positions=ReportedPositions())
    reporter.begin(*NAME, 100)
    gap = Gap(kind=GapKind.UNREADABLE, from_offset=100, to_offset=200)
    forwarder_of(reporter, NoQuarantine())._counting.pass_over(NAME, gap, copied_to)
    reporter.publish()
    expected = (Skipped(skipped_from, 200, "corrupt"),) if skipped_from < 200 else ()
    assert topic.ranges[-1].skipped == expected
    assert reporter.position(*NAME) == 200


@pytest.mark.parametrize(
    ("code", "is_passing"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.OFFSET_OUT_OF_RANGE, True),
        (ErrorCode.KAFKA_STORAGE_ERROR, True),
        (ErrorCode.CORRUPT_MESSAGE, True),
        (ErrorCode.POLICY_VIOLATION, False),
        (ErrorCode.INVALID_RECORD, False),
        (ErrorCode.UNSUPPORTED_VERSION, False),
    ],
)
def test_an_answer_is_waited_out_or_stops_the_partition(code: ErrorCode, is_passing: bool) -> None:
    destination = Destination(Cluster("127.0.0.1:1"))
    append = Append(name=NAME, batches=[batch_at(0, 0)], conditional_start=0)
    ended = destination._result(append, ProduceResponsePartition(0, code, error_message="said the broker"))
    assert ended.error is not None
    assert "said the broker" in str(ended.error)
    assert ended.is_passing == is_passing


def test_an_answer_that_leaves_a_partition_out_is_no_acknowledgement() -> None:
    destination = Destination(Cluster("127.0.0.1:1"))
    append = Append(name=NAME, batches=[batch_at(0, 0)], conditional_start=0)
    assert destination._result(append, None).error is not None
    assert destination._result(append, ProduceResponsePartition(0, 0)).error is None


def test_what_cannot_be_sent_is_told_when_it_is_asked_for() -> None:
    destination = Destination(Cluster("127.0.0.1:1", request_timeout_ms=500))
    destination.begin([Append(name=NAME, batches=[batch_at(0, 0)], conditional_start=0)])
    assert destination.is_busy
    ended = destination.finish()
    assert [(one.append.name, one.is_passing, one.error is not None) for one in ended] == [(NAME, True, True)]
    assert not destination.is_busy


def test_a_cluster_is_not_mirrored_onto_itself() -> None:
    with pytest.raises(SameCluster, match="give the address of another cluster"):
        Mirror(
            MirrorSettings(source="127.0.0.1:9092", destination="127.0.0.1:9092", destination_zookeeper="z", audit_bootstrap="a")
        )
