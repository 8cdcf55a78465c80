"""What a client may not see is not in its responses, and is not told from what does not exist. Real sockets."""

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.broker.rights.rule import Operation, Resource
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from tests.support.raw_kafka import RawClient, batch, fetched
from tests.support.serving_broker import ServingBroker

from .requests import GROUP, OTHER, TOPIC, right

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NONE = ErrorCode.NONE
SETTINGS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
EVERY_METADATA = range(13)
NOT_GIVEN = -(1 << 31)


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1, OTHER: 1}, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def metadata(client: RawClient, version: int, *names: str, everything: bool = False, create: bool = False, **more: Any) -> Any:
    topics: Any = [{"name": name, "topic_id": None} for name in names]
    if everything:
        topics = () if version == 0 else None
    flags = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False, **more}
    return client.ask(3, version, {"topics": topics, "allow_auto_topic_creation": create, **flags})


def told(response: Any) -> dict[str | None, int]:
    return {one.name: int(one.error_code) for one in response.topics}


@pytest.mark.parametrize("version", EVERY_METADATA)
def test_metadata_of_all_topics_shows_those_that_one_may_describe(broker: ServingBroker, client: RawClient, version: int) -> None:
    assert told(metadata(client, version, everything=True)) == {}
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC)])
    response = metadata(client, version, everything=True)
    assert told(response) == {TOPIC: NONE}
    assert len(response.brokers) == 1
    broker.set_rules([right(Operation.DESCRIBE, Resource.TOPIC, "*")])
    assert told(metadata(client, version, everything=True)) == {TOPIC: NONE, OTHER: NONE}


@pytest.mark.parametrize("version", EVERY_METADATA)
def test_a_named_topic_is_refused_whether_it_exists_or_not(broker: ServingBroker, client: RawClient, version: int) -> None:
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC)])
    answer = metadata(client, version, TOPIC, OTHER, "absent")
    assert told(answer) == {TOPIC: NONE, OTHER: DENIED, "absent": DENIED}
    hidden = [one for one in answer.topics if one.name != TOPIC]
    assert all(not one.partitions and not getattr(one, "topic_id", None) for one in hidden)


def test_a_topic_that_is_named_by_its_id_is_refused_without_its_name(broker: ServingBroker, client: RawClient) -> None:
    ids = [broker.topics.catalog.topics[name].topic_id for name in (TOPIC, OTHER)]
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC)])
    topics = [{"name": None, "topic_id": one} for one in ids]
    answer = client.ask(
        3, 12, {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    )
    assert {one.topic_id: (one.name, int(one.error_code)) for one in answer.topics} == {
        ids[0]: (TOPIC, NONE),
        ids[1]: (None, DENIED),
    }


def test_a_topic_is_created_by_first_use_by_those_who_may_create_it(broker: ServingBroker, client: RawClient) -> None:
    broker.set_rules([right(Operation.DESCRIBE, Resource.TOPIC, "*")])
    assert told(metadata(client, 8, "new", create=True)) == {"new": DENIED}
    assert "new" not in broker.topics.catalog.topics
    assert told(metadata(client, 8, "new")) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    broker.set_rules([right(Operation.DESCRIBE, Resource.TOPIC, "*"), right(Operation.CREATE, Resource.TOPIC, "new")])
    assert told(metadata(client, 8, "new", create=True)) == {"new": NONE}


@pytest.mark.parametrize("version", [8, 9, 10, 11, 12])
def test_the_operations_that_one_may_do_are_told_when_asked_for(broker: ServingBroker, client: RawClient, version: int) -> None:
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC), right(Operation.ALTER, Resource.CLUSTER)])
    (topic,) = metadata(client, version, TOPIC, include_topic_authorized_operations=True).topics
    assert topic.topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    if version <= 10:
        answer = metadata(client, version, TOPIC, include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    (topic,) = metadata(client, version, TOPIC).topics
    assert topic.topic_authorized_operations == NOT_GIVEN


def test_the_operations_on_cluster_and_group_are_told_when_asked_for(broker: ServingBroker, client: RawClient) -> None:
    asked = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
    assert client.ask(60, 1, asked).cluster_authorized_operations == 0
    broker.set_rules([right(Operation.ALTER, Resource.CLUSTER), right(Operation.READ, Resource.GROUP, GROUP)])
    assert client.ask(60, 1, asked).cluster_authorized_operations == 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    (group,) = client.ask(15, 5, {"groups": [GROUP], "include_authorized_operations": True}).groups
    assert group.authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE


@pytest.mark.parametrize("version", range(5))
def test_listed_groups_are_those_that_one_may_describe(broker: ServingBroker, client: RawClient, version: int) -> None:
    broker.offsets.offsets = {GROUP: {(TOPIC, 0): None}, "others": {(TOPIC, 0): None}}  # type: ignore[dict-item]
    asked = {"states_filter": []}
    assert client.ask(16, version, asked).groups == ()
    broker.set_rules([right(Operation.READ, Resource.GROUP, GROUP)])
    assert [one.group_id for one in client.ask(16, version, asked).groups] == [GROUP]
    broker.set_rules([right(Operation.DESCRIBE, Resource.CLUSTER)])
    assert len(client.ask(16, version, asked).groups) == 2


def test_all_offsets_of_a_group_are_those_of_topics_that_one_may_describe(broker: ServingBroker, client: RawClient) -> None:
    from headrace.coordination.committed_offset import CommittedOffset

    broker.offsets.offsets = {GROUP: {(TOPIC, 0): CommittedOffset(5), (OTHER, 0): CommittedOffset(7)}}
    group, topic = right(Operation.READ, Resource.GROUP, GROUP), right(Operation.READ, Resource.TOPIC, TOPIC)
    broker.set_rules([group, topic])
    answer = client.ask(9, 7, {"group_id": GROUP, "topics": None, "require_stable": False})
    assert [one.name for one in answer.topics] == [TOPIC]
    asked = [{"group_id": name, "topics": None} for name in (GROUP, "others")]
    mine, others = client.ask(9, 8, {"groups": asked, "require_stable": False}).groups
    assert [one.name for one in mine.topics] == [TOPIC]
    assert (others.group_id, others.error_code) == ("others", ErrorCode.GROUP_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("version", [0, 1, 5, 7])
def test_what_is_allowed_is_done_beside_what_is_denied(broker: ServingBroker, client: RawClient, version: int) -> None:
    """A topic is made, one is refused and neither hides the other; in an old version that kio lacks too."""
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for name in ("mine", "theirs")
    ]
    broker.set_rules([right(Operation.CREATE, Resource.TOPIC, "mine")])
    message = {"topics": topics, "timeout_ms": 5_000, "validate_only": False}
    body = control.encode_request(19, max(version, 2), message)
    answer = client.request(19, version, body[:-1] if version == 0 else body)
    if version < 2:
        assert bytes(answer).count(b"mine") == bytes(answer).count(b"theirs") >= 1
    else:
        response = control.decode_response(19, version, answer)
        assert told(response) == {"mine": NONE, "theirs": DENIED}
        mine = next(one for one in response.topics if one.name == "mine")
        assert (mine.topic_config_error_code, mine.configs, mine.num_partitions) == (DENIED, None, -1)
    assert "mine" in broker.topics.catalog.topics
    assert "theirs" not in broker.topics.catalog.topics


@pytest.mark.parametrize("version", [1, 5, 6])
def test_an_absent_topic_is_told_only_to_those_who_may_describe_it(
    broker: ServingBroker, client: RawClient, version: int
) -> None:
    def deleted(*names: str) -> dict[str, int]:
        topics = [{"name": name, "topic_id": None} for name in names]
        answer = client.ask(20, version, {"topic_names": names, "topics": topics, "timeout_ms": 5_000})
        return {one.name: int(one.error_code) for one in answer.responses}

    assert deleted(TOPIC, "absent") == {TOPIC: DENIED, "absent": DENIED}
    broker.set_rules([right(Operation.DESCRIBE, Resource.TOPIC, "*")])
    assert deleted(TOPIC, "absent") == {TOPIC: DENIED, "absent": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert TOPIC in broker.topics.catalog.topics


def test_an_id_is_refused_with_the_name_for_those_who_may_describe_it(broker: ServingBroker, client: RawClient) -> None:
    topic_id = broker.topics.catalog.topics[TOPIC].topic_id
    asked = {"topics": [{"name": None, "topic_id": topic_id}], "timeout_ms": 5_000}
    (one,) = client.ask(20, 6, asked).responses
    assert (one.name, one.topic_id, one.error_code) == (None, topic_id, DENIED)
    broker.set_rules([right(Operation.DESCRIBE, Resource.TOPIC, TOPIC)])
    (one,) = client.ask(20, 6, asked).responses
    assert (one.name, one.topic_id, one.error_code) == (TOPIC, topic_id, DENIED)


@pytest.mark.parametrize("version", range(3, 10))
def test_produce_wants_write_for_each_topic(broker: ServingBroker, client: RawClient, version: int) -> None:
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC)])
    for _ in range(3):  # the first one teaches the fast path its template
        assert client.produce(TOPIC, batch(b"a"), version=version).error_code == DENIED
        assert client.produce("absent", batch(b"a"), version=version).error_code == DENIED
    broker.set_rules([right(Operation.WRITE, Resource.TOPIC, TOPIC)])
    for _ in range(3):
        assert client.produce(TOPIC, batch(b"a"), version=version).error_code == NONE
    broker.set_rules([])
    assert client.produce(TOPIC, batch(b"a"), version=version).error_code == DENIED
    assert client.produce(TOPIC, batch(b"a"), version=version).error_code == DENIED


def test_produce_without_acknowledgement_closes_the_connection_when_it_is_denied(client: RawClient) -> None:
    from tests.support.raw_kafka import produce_body

    client.send(0, 9, produce_body(TOPIC, batch(b"a"), acks=0))
    assert client.is_closed_by_peer()


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_wants_read_for_each_topic(broker: ServingBroker, client: RawClient, version: int) -> None:
    broker.set_rules([right(Operation.WRITE, Resource.TOPIC, name) for name in (TOPIC, OTHER)])
    client.produce(TOPIC, batch(b"a"))
    client.produce(OTHER, batch(b"a"))
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC)])
    for _ in range(3):  # the second and the third are found in the cache of requests
        answers = client.fetch_many([(TOPIC, 0, 0), (OTHER, 0, 0), ("absent", 0, 0)], version=version, max_wait_ms=5_000)
        assert answers[TOPIC, 0].records
        assert {answers[name, 0].error_code for name in (OTHER, "absent")} == {DENIED}
        assert not answers[OTHER, 0].records
        assert client.fetch(TOPIC, 0, version=version).records
        assert client.fetch(OTHER, 0, version=version).error_code == DENIED


def test_a_fetch_that_names_a_topic_by_its_id_wants_the_right_too(broker: ServingBroker, client: RawClient) -> None:
    broker.set_rules([right(Operation.WRITE, Resource.TOPIC, TOPIC)])
    client.produce(TOPIC, batch(b"a"))
    text = str(broker.topics.catalog.topics[TOPIC].topic_id)
    assert client.fetch(text, 0).error_code == DENIED
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC)])
    assert client.fetch(text, 0).records


def test_a_right_that_is_taken_away_ends_a_fetch_that_waits(broker: ServingBroker, client: RawClient) -> None:
    """The right is looked at again when the data is there: up to fetch.max.wait.ms may have passed."""
    from tests.support.processes import eventually
    from tests.support.raw_kafka import fetch_body

    write = right(Operation.WRITE, Resource.TOPIC, TOPIC)
    broker.set_rules([write, right(Operation.READ, Resource.TOPIC, TOPIC)])
    for _ in range(2):  # decoded, then from the cache of requests
        end = broker.partition(TOPIC).high_watermark
        broker.set_rules([write, right(Operation.READ, Resource.TOPIC, TOPIC)])
        client.send(1, 12, fetch_body([(TOPIC, 0, end)], max_wait_ms=60_000))
        eventually(lambda: broker.context.metrics.parked_fetches == 1, what="the fetch waits")
        broker.set_rules([write])
        with broker.client() as other:
            assert other.produce(TOPIC, batch(b"secret")).error_code == NONE
        answer = fetched(12, client.receive(1, 12)[1])[TOPIC, 0]
        assert (answer.error_code, answer.records) == (DENIED, None) or not answer.records


def test_a_fetch_session_is_held_to_the_rights_of_who_uses_it(broker: ServingBroker, client: RawClient) -> None:
    from headrace.wire.messages import fetch

    read = [right(Operation.READ, Resource.TOPIC, name) for name in (TOPIC, OTHER)]
    broker.set_rules([*read, *(right(Operation.WRITE, Resource.TOPIC, name) for name in (TOPIC, OTHER))])
    for name in (TOPIC, OTHER):
        client.produce(name, batch(b"a"))
    topics = [fetch.FetchTopic(name, [fetch.FetchPartition(0, 0, 1 << 20)]) for name in (TOPIC, OTHER)]

    def asked(session_id: int, epoch: int, of: list[fetch.FetchTopic]) -> fetch.FetchResponse:
        request = fetch.FetchRequest(0, 1, 1 << 26, of, session_id=session_id, session_epoch=epoch)
        return fetch.decode_response(12, client.request(1, 12, fetch.encode_request(12, request)))

    first = asked(0, 0, topics)
    assert first.session_id
    broker.set_rules(read[:1])
    second = {topic.name: topic.partitions[0] for topic in asked(first.session_id, 1, []).topics}
    assert second[OTHER].error_code == DENIED
    assert not second[OTHER].records
    assert second[TOPIC].records


@pytest.mark.parametrize("version", [13, 16])
def test_an_id_gives_no_more_rights_than_the_name(broker: ServingBroker, client: RawClient, version: int) -> None:
    from headrace.wire.messages import fetch

    ids = {name: broker.topics.catalog.topics[name].topic_id.bytes for name in (TOPIC, OTHER)}
    broker.set_rules([right(Operation.READ, Resource.TOPIC, TOPIC)])
    topics = [fetch.FetchTopic(topic, [fetch.FetchPartition(0, 0, 1 << 20)]) for topic in (*ids.values(), b"?" * 16)]
    for some in (topics, topics[:1], topics[1:2]):
        asked = fetch.encode_request(version, fetch.FetchRequest(0, 1, 1 << 26, some))
        for _ in range(2):  # decoded, then from the cache of requests
            answer = fetch.decode_response(version, client.request(1, version, asked))
            found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
            expected = {ids[TOPIC]: NONE, ids[OTHER]: DENIED, b"?" * 16: ErrorCode.UNKNOWN_TOPIC_ID}
            assert found == {topic.name: expected[topic.name] for topic in some if isinstance(topic.name, bytes)}


def test_a_super_user_may_do_everything(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = {**SETTINGS, "super.users": "User:root;User:ANONYMOUS"}
    with (
        ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1}, settings=settings) as broker,
        broker.client() as client,
    ):
        assert client.produce(TOPIC, batch(b"a")).error_code == NONE
        assert client.fetch(TOPIC, 0).records
        assert told(metadata(client, 12, everything=True)) == {TOPIC: NONE}


def test_rules_that_were_never_read_deny_everything(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Even where everyone may use what no rule is about: there may be rules."""
    settings = {**SETTINGS, "allow.everyone.if.no.acl.found": "true"}
    with (
        ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1}, settings=settings) as broker,
        broker.client() as client,
    ):
        assert client.produce(TOPIC, batch(b"a")).error_code == DENIED
        broker.set_rules([])
        assert client.produce(TOPIC, batch(b"a")).error_code == NONE
