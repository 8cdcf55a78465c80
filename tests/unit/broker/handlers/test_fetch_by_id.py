"""Fetch 13 to 16: topics by their ids, alone and in sessions; leader epochs; the leader's address. Real sockets and logs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.broker.partitions.catalog import BrokerAddress, ReplicaView
from headrace.broker.partitions.flush_scheduler import Flushable
from headrace.broker.partitions.partition import Acknowledged, Fault
from headrace.broker.partitions.replicated_partition import ReplicatedPartition
from headrace.wire.batch.record_batch import iter_batches, iter_records
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control, fetch
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch
from tests.support.serving_broker import ServingBroker

VERSIONS = range(fetch.FIRST_WITH_IDS, fetch.MAX_SERVED + 1)
STRANGER = uuid4().bytes


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 3, "views": 1}) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def id_of(broker: ServingBroker, topic: str = "clicks") -> bytes:
    return broker.topics.catalog.topics[topic].topic_id.bytes


def body(
    topic: fetch.TopicKey,
    offset: int,
    *,
    version: int = 16,
    index: int = 0,
    epoch: int = -1,
    max_wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
) -> bytes:
    wanted = FetchTopic(topic, [FetchPartition(index, offset, 1 << 20, epoch)])
    session_id, session_epoch = session
    request = FetchRequest(max_wait_ms, 1, 1 << 26, [wanted], session_id=session_id, session_epoch=session_epoch)
    return fetch.encode_request(version, request)


def one(version: int, answer: memoryview) -> fetch.FetchResponsePartition:
    ((_, (found,)),) = fetch.decode_response(version, answer).topics
    return found


def values(answer: fetch.FetchResponsePartition) -> list[bytes | None]:
    assert isinstance(answer.records, memoryview | bytes)
    return [record.value for _, data in iter_batches(answer.records) for record in iter_records(data)]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_reads_what_was_written_also_as_a_fetch_that_is_known(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    topic_id = id_of(broker)
    end = len(batch(b"one"))
    client.produce("clicks", batch(b"one"))
    for _ in range(2):
        answer = fetch.decode_response(version, client.request(fetch.API_KEY, version, body(topic_id, 0, version=version)))
        assert answer.topics[0].name == topic_id
        assert values(answer.topics[0].partitions[0])[0] == b"one"
        client.send(fetch.API_KEY, version, body(topic_id, end, version=version, max_wait_ms=60_000))
        with broker.client() as producer:
            eventually(lambda: broker.context.metrics.parked_fetches == 1, what="the fetch waits at the end")
            producer.produce("clicks", batch(b"two"))
        assert values(one(version, client.receive(fetch.API_KEY, version)[1]))[-1] == b"two"
        end += len(batch(b"two"))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_id_that_no_topic_has_and_a_partition_that_it_has_not(broker: ServingBroker, client: RawClient, version: int) -> None:
    def error(topic: bytes, index: int) -> int:
        return one(version, client.request(fetch.API_KEY, version, body(topic, 0, version=version, index=index))).error_code

    assert error(STRANGER, 0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert error(bytes(16), 0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert error(id_of(broker), 9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_made_again_under_its_name_is_another_one(broker: ServingBroker, client: RawClient) -> None:
    """Also for the fetch that was known, and for a session."""
    before = id_of(broker, "views")
    client.produce("views", batch(b"old"))
    assert values(one(16, client.request(fetch.API_KEY, 16, body(before, 0)))) == [b"old"]
    session = fetch.decode_response(16, client.request(fetch.API_KEY, 16, body(before, 0, session=(0, 0)))).session_id
    assert session > 0
    catalog = broker.topics.catalog
    renewed = replace(catalog.topics["views"], topic_id=uuid4())
    broker.topics.catalog = replace(catalog, topics={**catalog.topics, "views": renewed})
    assert one(16, client.request(fetch.API_KEY, 16, body(before, 0))).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert values(one(16, client.request(fetch.API_KEY, 16, body(renewed.topic_id.bytes, 0)))) == [b"old"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_goes_by_ids_as_long_as_it_lasts(broker: ServingBroker, client: RawClient, version: int) -> None:
    topic_id = id_of(broker)
    opened = fetch.decode_response(
        version, client.request(fetch.API_KEY, version, body(topic_id, 0, version=version, session=(0, 0)))
    )
    nothing_new = FetchRequest(0, 1, 1 << 26, [], session_id=opened.session_id, session_epoch=1)
    by_name = client.request(fetch.API_KEY, 12, fetch.encode_request(12, nothing_new))
    assert fetch.decode_response(12, by_name).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    client.produce("clicks", batch(b"one"))
    answer = fetch.decode_response(version, client.request(fetch.API_KEY, version, fetch.encode_request(version, nothing_new)))
    assert (answer.error_code, answer.topics[0].name) == (0, topic_id)
    assert values(answer.topics[0].partitions[0]) == [b"one"]
    forget = nothing_new._replace(session_epoch=2, forgotten=[(topic_id, [0])])
    ended = fetch.decode_response(version, client.request(fetch.API_KEY, version, fetch.encode_request(version, forget)))
    assert ended.session_id == 0, "a session without partitions ends"


def test_a_session_by_names_takes_no_request_by_ids(client: RawClient) -> None:
    opened = fetch.decode_response(12, client.request(fetch.API_KEY, 12, body("clicks", 0, version=12, session=(0, 0))))
    by_id = FetchRequest(0, 1, 1 << 26, [], session_id=opened.session_id, session_epoch=1)
    answer = fetch.decode_response(13, client.request(fetch.API_KEY, 13, fetch.encode_request(13, by_id)))
    assert answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize(
    ("version", "epoch", "error"), [(8, 5, 0), (9, 5, 75), (12, 5, 75), (16, 5, 75), (16, 0, 0), (16, -1, 0)]
)
def test_a_client_in_an_epoch_to_come_is_told_so(
    broker: ServingBroker, client: RawClient, version: int, epoch: int, error: int
) -> None:
    client.produce("clicks", batch(b"one"))
    topic: fetch.TopicKey = id_of(broker) if version >= fetch.FIRST_WITH_IDS else "clicks"
    for _ in range(2):
        answer = one(version, client.request(fetch.API_KEY, version, body(topic, 0, version=version, epoch=epoch)))
        assert answer.error_code == error


class PretendReplica:
    """What a partition with several replicas asks its driver."""

    def __init__(self, flush_target: Flushable, leads: bool | None) -> None:
        self.flush_target = flush_target
        self.leads = leads
        """None: nothing is known in time."""
        self.asked = 0

    def log_changed(self) -> None: ...

    def why_no_append(self, acks: int) -> Fault | None:
        return None

    def when_acknowledged(self, timeout_ms: int, done: Acknowledged) -> None:
        done(None)

    def delete_records(self, offset: int, timeout_ms: int, done: Acknowledged) -> None:
        done(None)

    def when_sure(self, done: Callable[[bool], None]) -> None:
        self.asked += 1
        if self.leads is not None:
            done(self.leads)

    def lags(self) -> dict[int, int]:
        return {}


def replicated(broker: ServingBroker, leads: bool | None, *, leader_epoch: int = 4) -> PretendReplica:
    """Let this broker lead clicks-0 as one of three replicas."""
    plain = broker.partition("clicks")
    replica = PretendReplica(plain, leads)
    made = ReplicatedPartition(
        "clicks", 0, plain.log, plain.settings, lambda *_: None, replica, leader_epoch=leader_epoch, visible=plain.high_watermark
    )
    broker.table.remove(plain)
    broker.table.add(made)
    return replica


@pytest.mark.parametrize(("leads", "error"), [(True, ErrorCode.OFFSET_OUT_OF_RANGE), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)])
@pytest.mark.parametrize("session", [(0, -1), (0, 0)])
def test_an_offset_behind_the_end_is_out_of_range_only_for_a_leader_that_is_sure(
    broker: ServingBroker, client: RawClient, leads: bool, error: ErrorCode, session: tuple[int, int]
) -> None:
    """A leader that was frozen does not know what was committed meanwhile: its readers would begin elsewhere."""
    client.produce("clicks", batch(b"one"))
    replica = replicated(broker, leads)
    end = broker.partition("clicks").log.log_end_offset
    answer = one(12, client.request(fetch.API_KEY, 12, body("clicks", end + 70, version=12, max_wait_ms=9_000, session=session)))
    assert answer.error_code == error
    assert replica.asked == 1
    assert one(12, client.request(fetch.API_KEY, 12, body("clicks", 0, version=12))).error_code == 0
    assert replica.asked == 1, "within the log it need not be sure"


def test_a_leader_that_cannot_be_sure_in_time_says_that_it_does_not_lead(
    broker: ServingBroker, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.broker.handlers.fetch.SURE_WITHIN_MS", 50)
    replicated(broker, None)
    answer = one(16, client.request(fetch.API_KEY, 16, body(id_of(broker), 1_000)))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("epoch", "error"), [(3, 74), (4, 0), (5, 75), (-1, 0)])
def test_a_replicated_partition_is_read_in_its_epoch_only(
    broker: ServingBroker, client: RawClient, epoch: int, error: int
) -> None:
    client.produce("clicks", batch(b"one"))
    replicated(broker, True)
    for version, topic in ((9, "clicks"), (12, "clicks"), (16, id_of(broker))):
        for _ in range(2):
            answer = one(version, client.request(fetch.API_KEY, version, body(topic, 0, version=version, epoch=epoch)))
            assert answer.error_code == error
            assert bool(answer.records) == (error == 0)


def test_version_16_names_the_leader_and_its_address(broker: ServingBroker, client: RawClient) -> None:
    catalog = broker.topics.catalog
    states = {
        index: ReplicaView(leader=leader, leader_epoch=4, in_sync=(1, 2), replicas=(1, 2), targets=(), version=1)
        for index, leader in ((0, 2), (1, 1))
    }
    other = BrokerAddress(broker_id=2, host="other", port=9_002, endpoints={"PLAINTEXT": ("other", 9_002)})
    entry = replace(catalog.topics["clicks"], states=states)
    broker.topics.catalog = replace(catalog, topics={**catalog.topics, "clicks": entry}, brokers={2: other})
    for index in range(2):
        broker.table.remove(broker.partition("clicks", index))

    def asked(version: int, index: int) -> tuple[int, int, list[tuple[int, str, int]]]:
        raw = client.request(fetch.API_KEY, version, body(id_of(broker), 0, version=version, index=index))
        answer = control.decode_response(fetch.API_KEY, version, raw)
        leader = answer.responses[0].partitions[0].current_leader
        endpoints = [(int(each.node_id), each.host, int(each.port)) for each in getattr(answer, "node_endpoints", ())]
        return int(leader.leader_id), int(leader.leader_epoch), endpoints

    assert asked(16, 0) == (2, 4, [(2, "other", 9_002)])
    assert asked(16, 1) == (-1, -1, []), "this broker does not lead, so it is no hint"
    assert asked(15, 0) == (-1, -1, [])
