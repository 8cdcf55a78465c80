"""The cache of Metadata responses: bounded, and never outdated."""

from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import pytest

from headrace.broker.handlers import metadata
from headrace.broker.handlers.metadata_answers import MetadataAnswers
from headrace.broker.partitions.catalog import BrokerAddress, Catalog, TopicEntry
from headrace.wire.generators import run_to_end
from headrace.wire.messages import control
from tests.support.serving_broker import ServingBroker


def entry(name: str, replicas: dict[int, tuple[int, ...]]) -> TopicEntry:
    return TopicEntry(name=name, partitions=replicas, config={}, topic_id=uuid5(NAMESPACE_OID, name))


def address(number: int) -> BrokerAddress:
    return BrokerAddress(broker_id=number, host="h", port=number, endpoints={"PLAINTEXT": ("h", number)})


def catalog(*names: str, replicas: dict[int, tuple[int, ...]] | None = None, brokers: int = 1) -> Catalog:
    topics = {name: entry(name, replicas or {0: (1,)}) for name in names}
    known = {number: address(number) for number in range(1, brokers + 1)}
    return Catalog(cluster_id="c", topics=topics, brokers=known)


@pytest.fixture
def broker(tmp_path: Path) -> ServingBroker:
    return ServingBroker(tmp_path)


def asked(broker: ServingBroker, *names: str) -> dict[str, list[tuple[int, int]]]:
    body = run_to_end(metadata._answer(broker.context, 9, "PLAINTEXT", list(names) or None))
    topics = control.decode_response(3, 9, body).topics
    return {str(one.name): [(part.partition_index, part.leader_id) for part in one.partitions] for one in topics}


def test_answers_and_their_questions_together_stay_within_their_bytes() -> None:
    answers, now = MetadataAnswers(), catalog("a")
    for number in range(100):
        answers.put(number, now, bytes(200_000), key_bytes=100_000)
        assert sum(map(len, answers._answers.values())) + 100_000 * len(answers._answers) <= MetadataAnswers.CAPACITY_BYTES
    assert answers.get(99, now) is not None
    assert answers.get(0, now) is None
    answers.put("huge", now, bytes(MetadataAnswers.CAPACITY_BYTES + 1))
    assert answers.get("huge", now) is None


def test_topics_that_are_no_more_are_forgotten_in_the_end() -> None:
    answers = MetadataAnswers()
    pieces = answers.pieces(9, frozenset({1}))
    for number in range(MetadataAnswers.FORGOTTEN_TOPICS + 2):
        pieces[f"t{number}"] = (entry("t", {}), b"")
    answers.put("key", catalog("a"), b"")
    assert len(answers.pieces(9, frozenset({1}))) == 0


def test_a_topic_that_has_changed_is_written_anew_and_others_are_not(broker: ServingBroker) -> None:
    broker.topics.catalog = catalog("a", "b")
    assert asked(broker) == {"a": [(0, 1)], "b": [(0, 1)]}
    kept = broker.context.metadata_answers.pieces(9, frozenset({1}))["b"][1]
    changed = entry("a", {0: (1,), 1: (1,)})
    broker.topics.catalog = Catalog(cluster_id="c", topics={**broker.topics.catalog.topics, "a": changed})
    assert asked(broker) == {"a": [(0, 1), (1, 1)], "b": [(0, 1)]}
    assert broker.context.metadata_answers.pieces(9, frozenset({1}))["b"][1] is kept


def test_when_a_broker_goes_its_partitions_have_no_leader_in_the_next_answer(broker: ServingBroker) -> None:
    replicas = {0: (1,), 1: (2,)}
    broker.topics.catalog = catalog("a", replicas=replicas, brokers=2)
    assert asked(broker, "a") == {"a": [(0, 1), (1, 2)]}
    broker.topics.catalog = Catalog(cluster_id="c", topics={"a": broker.topics.catalog.topics["a"]})
    assert asked(broker, "a") == {"a": [(0, 1), (1, -1)]}
