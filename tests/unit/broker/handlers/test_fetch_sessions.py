"""Fetch sessions (KIP-227): whatever is appended, deleted and asked, a client that keeps what it was told knows what a fetch of
everything would say. And an idle session costs nothing, however many partitions it has.
"""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headrace.broker.handlers import fetch_collecting
from headrace.broker.handlers.fetch_sessions import LOOK_EVERY_MS, UNUSED_MS, FetchSession, FetchSessions, next_epoch
from headrace.broker.metrics import BrokerMetrics
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import fetch
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, fetch_body, fetched, frame, produce_body
from tests.support.serving_broker import NOW_MS, ServingBroker
from tests.unit.broker.driven import Peer, driven

Name = tuple[str, int]


def request(
    offsets: dict[Name, int],
    session_id: int,
    epoch: int,
    *,
    forgotten: Sequence[Name] = (),
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 26,
    min_bytes: int = 1,
) -> fetch.FetchRequest:
    topics = [fetch.FetchTopic(topic, [fetch.FetchPartition(index, at, 1 << 20)]) for (topic, index), at in offsets.items()]
    left = [(topic, [index]) for topic, index in forgotten]
    return fetch.FetchRequest(
        max_wait_ms, min_bytes, max_bytes, topics, session_id=session_id, session_epoch=epoch, forgotten=left
    )


class SessionClient:
    """A client that asks for changes only and keeps what it was told."""

    def __init__(self, raw: RawClient, version: int = 12) -> None:
        self.raw, self.version = raw, version
        self.session_id = self.epoch = 0
        self.sent: dict[Name, int] = {}
        self.known: dict[Name, fetch.FetchResponsePartition] = {}
        self.bytes_received = 0

    def ask(self, offsets: dict[Name, int], **how: Any) -> dict[Name, fetch.FetchResponsePartition]:
        self.send(offsets, **how)
        return self.receive()

    def send(self, offsets: dict[Name, int], **how: Any) -> None:
        changed = {name: at for name, at in offsets.items() if self.sent.get(name) != at}
        forgotten = [name for name in self.sent if name not in offsets]
        self.sent = dict(offsets)
        body = fetch.encode_request(self.version, request(changed, self.session_id, self.epoch, forgotten=forgotten, **how))
        self.raw.send(fetch.API_KEY, self.version, body)

    def receive(self) -> dict[Name, fetch.FetchResponsePartition]:
        _, body = self.raw.receive(fetch.API_KEY, self.version)
        self.bytes_received = len(body)
        response = fetch.decode_response(self.version, body)
        assert response.error_code == 0, ErrorCode(response.error_code).name
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        told = {(str(topic.name), answer.index): answer for topic in response.topics for answer in topic.partitions}
        self.known |= told
        return told

    def error(self, session_id: int, epoch: int) -> int:
        body = fetch.encode_request(self.version, request({}, session_id, epoch))
        return fetch.decode_response(self.version, self.raw.request(fetch.API_KEY, self.version, body)).error_code


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"many": 50, "other": 2}) as serving:
        yield serving


@pytest.fixture
def raw(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as client:
        yield client


ALL = {("many", index): 0 for index in range(50)}


@pytest.mark.parametrize("version", range(7, 13))
def test_an_answer_has_only_the_partitions_with_news(raw: RawClient, version: int) -> None:
    client = SessionClient(raw, version)
    assert client.ask(ALL).keys() == ALL.keys()
    assert client.session_id > 0
    assert client.ask(ALL) == {}
    assert client.bytes_received < 20
    data = batch(b"one")
    raw.produce("many", data, partition=7)
    (answer,) = client.ask(ALL).values()
    assert (answer.index, len(answer.records or b""), answer.high_watermark) == (7, len(data), len(data))
    assert client.ask(ALL).keys() == {("many", 7)}, "not taken note of: it comes again"
    moved = {**ALL, ("many", 7): len(data)}
    assert client.ask(moved) == {}
    assert client.ask(moved) == {}


def test_a_high_watermark_that_moved_is_told_where_no_records_fit(raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    data = batch(b"x" * 100)
    for index in range(50):
        raw.produce("many", data, partition=index)
    answers = client.ask(ALL, max_bytes=10)
    assert {answer.high_watermark for answer in answers.values()} == {len(data)}
    assert len(answers) == 50
    assert sum(len(answer.records or b"") > 0 for answer in answers.values()) == 1


def test_partitions_are_served_in_turns(raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    data = batch(b"x" * 100)
    for index in range(50):
        raw.produce("many", data, partition=index)
        raw.produce("many", data, partition=index)
    offsets, served = dict(ALL), list[int]()
    for _ in range(50):
        for name, answer in client.ask(offsets, max_bytes=len(data) + 10).items():
            if answer.records:
                served.append(name[1])
                offsets[name] += len(data)
    assert sorted(served) == list(range(50))


def test_a_forgotten_partition_is_in_no_answer(raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    kept = {name: 0 for name in ALL if name[1] != 7}
    client.ask(kept)
    raw.produce("many", batch(b"one"), partition=7)
    raw.produce("many", batch(b"one"), partition=8)
    assert client.ask(kept).keys() == {("many", 8)}


def test_a_session_without_partitions_ends(broker: ServingBroker, raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask({("other", 0): 0, ("other", 1): 0})
    session_id = client.session_id
    client.ask({}, max_wait_ms=60_000)
    assert (client.session_id, len(broker.context.fetch_sessions)) == (0, 0)
    assert client.error(session_id, 2) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_unknown_session_and_a_wrong_epoch_are_errors(raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    assert client.error(0, 5) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.error(client.session_id ^ 1, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.error(client.session_id, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.ask(ALL) == {}, "the session goes on"


@pytest.mark.parametrize(("epoch", "has_new"), [(0, True), (-1, False)])
def test_a_full_request_closes_the_session_that_it_names(
    broker: ServingBroker, raw: RawClient, epoch: int, has_new: bool
) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    old = client.session_id
    body = fetch.encode_request(12, request(ALL, old, epoch))
    response = fetch.decode_response(12, raw.request(fetch.API_KEY, 12, body))
    assert (response.session_id > 0) == has_new
    assert response.session_id != old
    assert len(broker.context.fetch_sessions) == broker.context.metrics.fetch_session_partitions // 50 == int(has_new)
    assert sum(len(one._waiters) for one in broker.table) == 50 * has_new


def test_a_deleted_and_recreated_topic_is_told(broker: ServingBroker, raw: RawClient) -> None:
    client = SessionClient(raw)
    wanted = {**ALL, ("other", 0): 0}
    client.ask(wanted)
    broker.on_loop(lambda: broker.topics.delete("other", lambda _: None))
    for _ in range(2):
        (answer,) = client.ask(wanted, max_wait_ms=60_000).values()
        assert (answer.index, answer.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "told again and again"
    broker.on_loop(lambda: broker.topics.create("other2", 1, {}, lambda _: None))
    wanted[("other2", 0)] = 0
    del wanted[("other", 0)]
    assert client.ask(wanted).keys() == {("other2", 0)}
    assert client.ask(wanted) == {}


def test_deleted_records_are_told(broker: ServingBroker, raw: RawClient) -> None:
    client = SessionClient(raw)
    data = batch(b"one")
    raw.produce("many", data, partition=3)
    wanted = {**ALL, ("many", 3): len(data)}
    client.ask(wanted)
    topic = {"name": "many", "partitions": [{"partition_index": 3, "offset": len(data)}]}
    raw.ask(21, 2, {"topics": [topic], "timeout_ms": 10_000})
    (answer,) = client.ask(wanted).values()
    assert (answer.index, answer.log_start_offset) == (3, len(data))
    assert client.ask(wanted) == {}


# -- long polls ----------------------------------------


def test_a_waiting_session_wakes_with_an_append(broker: ServingBroker, raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    client.send(ALL, max_wait_ms=60_000)
    with broker.client() as other:
        other.produce("many", batch(b"one"), partition=9)
    assert client.receive().keys() == {("many", 9)}


def test_a_waiting_session_is_told_of_a_deleted_topic(broker: ServingBroker, raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask({**ALL, ("other", 1): 0})
    client.send({**ALL, ("other", 1): 0}, max_wait_ms=60_000)
    eventually(lambda: broker.context.metrics.parked_fetches == 1, what="the fetch parked")
    broker.on_loop(lambda: broker.topics.delete("other", lambda _: None))
    assert client.receive()["other", 1].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_waiting_request_is_refused_when_another_of_its_session_comes(broker: ServingBroker, raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    client.send(ALL, max_wait_ms=60_000)
    eventually(lambda: broker.context.metrics.parked_fetches == 1, what="the fetch parked")
    with broker.client() as other:
        body = fetch.encode_request(12, request({}, client.session_id, 2))
        assert fetch.decode_response(12, other.request(fetch.API_KEY, 12, body)).error_code == 0
    _, body2 = raw.receive(fetch.API_KEY, 12)
    assert fetch.decode_response(12, body2).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_waiting_request_is_refused_when_its_session_is_evicted(broker: ServingBroker, raw: RawClient) -> None:
    client = SessionClient(raw)
    client.ask(ALL)
    client.send(ALL, max_wait_ms=60_000)
    eventually(lambda: broker.context.metrics.parked_fetches == 1, what="the fetch parked")
    broker.on_loop(lambda: broker.context.fetch_sessions.close(client.session_id))
    _, body = raw.receive(fetch.API_KEY, 12)
    assert fetch.decode_response(12, body).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_client_that_left_costs_one_call_of_its_partitions(broker: ServingBroker) -> None:
    with broker.client() as raw:
        SessionClient(raw).ask(ALL)
    assert len(broker.partition("many", 3)._waiters) == 1
    with broker.client() as producer:
        producer.produce("many", batch(b"one"), partition=3)
    assert len(broker.partition("many", 3)._waiters) == 0


@pytest.mark.parametrize("count", [50, 100])
def test_a_wake_up_looks_only_at_what_has_news(tmp_path: Path, count: int) -> None:
    with ServingBroker(tmp_path, topics={"wide": count}) as broker, broker.client() as raw, broker.client() as producer:
        client = SessionClient(raw)
        wanted = {("wide", index): 0 for index in range(count)}
        client.ask(wanted)
        with mock.patch.object(fetch_collecting, "_read", wraps=fetch_collecting._read) as read:
            client.ask(wanted, max_wait_ms=1)
            assert read.call_count == 0
            client.send(wanted, max_wait_ms=60_000)
            producer.produce("wide", batch(b"one"), partition=count - 1)
            assert client.receive().keys() == {("wide", count - 1)}
            assert read.call_count <= 2


# -- limits ----------------------------------------


def test_slots_zero_means_no_sessions(tmp_path: Path) -> None:
    with (
        ServingBroker(tmp_path, topics={"many": 50}, settings={"max.incremental.fetch.session.cache.slots": 0}) as broker,
        broker.client() as raw,
    ):
        client = SessionClient(raw)
        client.ask(ALL)
        assert client.session_id == 0


def test_a_session_that_grows_too_large_ends(tmp_path: Path) -> None:
    with (
        ServingBroker(tmp_path, topics={"many": 50}, settings={"fetch.parked.partitions.max": 40}) as broker,
        broker.client() as raw,
    ):
        client = SessionClient(raw)
        client.ask(dict(list(ALL.items())[:30]))
        assert client.session_id > 0
        body = fetch.encode_request(12, request(ALL, client.session_id, 1))
        assert fetch.decode_response(12, raw.request(fetch.API_KEY, 12, body)).error_code == 70
        assert (len(broker.context.fetch_sessions), broker.context.metrics.fetch_session_partitions) == (0, 0)
        client = SessionClient(raw)
        assert client.ask(ALL).keys() == ALL.keys()
        assert client.session_id == 0, "too many for one session: served without one"


def opened(sessions: FetchSessions, count: int, now_ms: int, *, is_privileged: bool = False) -> FetchSession | None:
    session = sessions.open(count, now_ms, is_privileged=is_privileged)
    if session is not None:
        sessions.update(session, request({("t", index): 0 for index in range(count)}, session.session_id, 0), now_ms)
    return session


def test_with_all_slots_in_use_there_is_no_new_session() -> None:
    sessions = FetchSessions(metrics=BrokerMetrics(), slots=2, most_partitions=100)
    assert opened(sessions, 1, 0)
    assert opened(sessions, 1, 0)
    assert opened(sessions, 5, UNUSED_MS) is None


def test_the_session_that_was_not_used_for_longest_goes_first() -> None:
    sessions = FetchSessions(metrics=BrokerMetrics(), slots=2, most_partitions=100)
    first, second = opened(sessions, 9, 0), opened(sessions, 1, 0)
    assert first
    assert second
    sessions.update(first, request({}, first.session_id, 1), 10)
    third = opened(sessions, 1, UNUSED_MS + 1)
    assert third
    assert second.is_closed
    assert not first.is_closed
    assert sessions._metrics.fetch_sessions_evicted == 1


def test_a_used_session_goes_only_if_it_is_old_and_smaller() -> None:
    sessions = FetchSessions(metrics=BrokerMetrics(), slots=2, most_partitions=100)
    large, small = opened(sessions, 9, 0), opened(sessions, 2, 0)
    now_ms = UNUSED_MS + 1
    for one in (large, small):
        assert one
        sessions.update(one, request({}, one.session_id, 1), now_ms)
    assert opened(sessions, 1, now_ms) is None, "smaller than each"
    assert opened(sessions, 3, now_ms + LOOK_EVERY_MS - 1) is None, "looked a moment ago"
    assert opened(sessions, 3, now_ms + LOOK_EVERY_MS)
    assert small
    assert large
    assert (small.is_closed, large.is_closed) == (True, False)


def test_a_brokers_session_takes_the_place_of_a_consumers_but_not_the_other_way() -> None:
    sessions = FetchSessions(metrics=BrokerMetrics(), slots=1, most_partitions=100)
    consumer = opened(sessions, 9, 0)
    broker = opened(sessions, 1, 1, is_privileged=True)
    assert consumer
    assert consumer.is_closed
    assert broker
    sessions.update(broker, request({}, broker.session_id, 1), UNUSED_MS + 5)
    assert opened(sessions, 50, UNUSED_MS + 6) is None


def test_the_partitions_of_all_sessions_have_a_limit() -> None:
    sessions = FetchSessions(metrics=BrokerMetrics(), slots=100, most_partitions=10)
    assert opened(sessions, 6, 0)
    assert opened(sessions, 5, 0) is None
    assert opened(sessions, 4, 0)
    assert opened(sessions, 11, 10 * UNUSED_MS) is None
    assert opened(sessions, 10, 10 * UNUSED_MS)
    assert (len(sessions), sessions._metrics.fetch_session_partitions) == (1, 10)


def test_epochs_begin_again_at_1() -> None:
    assert [next_epoch(1), next_epoch((1 << 31) - 1)] == [2, 1]


# -- whatever happens ----------------------------------------

NAMES = [("a", 0), ("a", 1), ("b", 0), ("gone", 0), ("nowhere", 0)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.sampled_from(NAMES[:3]), st.integers(1, 300)),
        st.tuples(st.just("fetch"), st.sampled_from([10, 400, 1 << 20]), st.just(0)),
        st.tuples(st.just("toggle"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("expire"), st.sampled_from(NAMES[:3]), st.just(0)),
        st.tuples(st.just("delete"), st.just(0), st.just(0)),
        st.tuples(st.just("create"), st.just(0), st.just(0)),
        st.tuples(st.just("skip"), st.just(0), st.just(0)),
    ),
    min_size=10,
    max_size=60,
)


class Model:
    """A driven broker, a client of it with a session, and one without."""

    def __init__(self, folder: Path) -> None:
        topics: dict[str, int | tuple[int, dict[str, str]]] = {
            "a": 2,
            "b": (1, {"segment.bytes": "300"}),
            "gone": 1,
        }
        self.broker, self.with_session = driven(folder, topics)
        self.without = Peer(self.broker)
        self.offsets = dict.fromkeys(NAMES[:3], 0)
        self.sent: dict[Name, int] = {}
        self.known: dict[Name, tuple[int, int, int]] = {}
        self.session_id = self.epoch = self.number = 0
        self.takes = True

    def call(self, peer: Peer, key: int, version: int, body: bytes) -> memoryview:
        self.number += 1
        peer.answers.clear()
        peer.send(frame(key, version, self.number, body))
        return memoryview(bytes(peer.answers))[8 + (version >= 12 or key == 0) :]

    def fetch(self, max_bytes: int) -> int:
        """Fetch once, compare with a fetch of everything, and return how many records came."""
        changed = {name: at for name, at in self.offsets.items() if self.sent.get(name) != at}
        forgotten = [name for name in self.sent if name not in self.offsets]
        self.sent = dict(self.offsets)
        asked = request(changed, self.session_id, self.epoch, forgotten=forgotten, max_bytes=max_bytes)
        response = fetch.decode_response(12, self.call(self.with_session, 1, 12, fetch.encode_request(12, asked)))
        assert response.error_code == 0
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if self.session_id else 0
        if not self.session_id:
            self.sent = {}
        whole = fetched(12, self.call(self.without, 1, 12, fetch_body([(*name, at) for name, at in self.offsets.items()])))
        count = 0
        for topic in response.topics:
            for answer in topic.partitions:
                name = (topic.name, answer.index)
                assert name in self.offsets
                self.known[name] = (answer.error_code, answer.high_watermark, answer.log_start_offset)
                if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.offsets[name] = answer.log_start_offset
                elif answer.records:
                    count += 1
                    expected = whole[name].records
                    assert isinstance(expected, memoryview)
                    assert bytes(answer.records) == bytes(expected[: len(answer.records)])  # type: ignore[call-overload]  # a view
                    if self.takes:
                        self.offsets[name] += len(answer.records)
        for name, answer in whole.items():
            assert self.known[name] == (answer.error_code, answer.high_watermark, answer.log_start_offset), name
        return count

    def step(self, what: str, name: Any, size: int) -> None:
        event(what)
        match what:
            case "produce":
                body = produce_body(name[0], batch(b"v" * size), partition=name[1])
                self.call(self.without, 0, 9, body)
            case "fetch":
                self.fetch(name)
            case "toggle" if name in self.offsets:
                del self.offsets[name]
            case "toggle":
                self.offsets[name] = 0
            case "expire":
                partition = self.broker.partition(*name)
                partition.log.advance_start(partition.high_watermark, NOW_MS)
                partition.start_moved()
            case "delete":
                self.broker.topics.delete("gone", lambda _: None)
            case "create":
                self.broker.topics.create("gone", 1, {}, lambda _: None)
            case "skip":
                self.takes = not self.takes


@given(steps=STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_session_tells_what_a_fetch_of_everything_would(steps: list[tuple[str, Any, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder))
        try:
            for step in steps:
                model.step(*step)
            model.takes = True
            model.offsets = {name: at for name, at in model.offsets.items() if name[0] in "ab"}
            model.fetch(10)
            rounds = 0
            while model.fetch(10):
                rounds += 1
                assert rounds < 200, "everything is read in the end, also where one batch at a time fits"
            for name, at in model.offsets.items():
                assert at == model.broker.partition(*name).high_watermark
        finally:
            model.with_session.close()
            model.without.close()
            model.broker.close()
