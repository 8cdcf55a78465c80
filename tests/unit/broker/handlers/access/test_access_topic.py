"""Denials and changes are records of the topic `_headrace.access`. Real sockets, loop and logs; ZooKeeper is simulated."""

import json
from typing import Any

import pytest

from headrace.broker.handlers import access_topic
from headrace.broker.rights.rule import Operation, Resource
from headrace.runtime.layout import ACCESS_TOPIC
from headrace.wire.batch.record_batch import iter_batches, iter_records
from tests.support.login_broker import LoginBroker, log_in
from tests.support.processes import eventually
from tests.support.raw_kafka import batch
from tests.support.serving_broker import ServingBroker

from .requests import GROUP, TOPIC, right

SETTINGS = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


@pytest.mark.parametrize("acks_on_disk", [False, True])
def test_a_denial_is_a_record_and_the_topic_is_made_for_it(tmp_path_factory: pytest.TempPathFactory, acks_on_disk: bool) -> None:
    settings = {**SETTINGS, **({"log.flush.ack": "always"} if acks_on_disk else {})}
    with (
        ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1}, settings=settings) as broker,
        broker.client() as client,
    ):
        for _ in range(3):
            client.produce(TOPIC, batch(b"a"))
        broker.set_rules([right(Operation.DELETE, Resource.GROUP, GROUP), right(Operation.READ, Resource.TOPIC, ACCESS_TOPIC)])
        client.ask(42, 2, {"groups_names": [GROUP]})

        def told() -> dict[str, dict[str, Any]]:
            end = client.fetch(ACCESS_TOPIC, 0)
            found = {}
            for _, one in iter_batches(bytes(end.records or b"")):
                for record in iter_records(one):
                    event = json.loads(record.value)
                    found[event["kind"]] = event
            return found

        eventually(lambda: {"denied", "changed"} <= told().keys(), within_ms=20_000, what="both events are records")
        events = told()
        assert (events["denied"]["api"], events["denied"]["operation"], events["denied"]["name"]) == ("Produce", "WRITE", TOPIC)
        assert (events["changed"]["api"], events["changed"]["name"]) == ("DeleteGroups", GROUP)


def test_a_failed_login_is_a_record(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("broker")
    rights = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    with LoginBroker(folder, **rights) as broker:
        with broker.client() as client:
            assert log_in(client, "mallory", "guess").error_code
        eventually(lambda: broker.table.get(ACCESS_TOPIC, 0) is not None, within_ms=20_000, what="the topic is made")
        partition = broker.partition(ACCESS_TOPIC)
        eventually(lambda: partition.messages_in > 0, what="the event is a record")
        (segment,) = (folder / f"{ACCESS_TOPIC}-0").glob("*.log")
        assert b'"kind":"login_failed","principal":"User:mallory"' in segment.read_bytes()


def test_events_that_wait_for_the_topic_are_bounded(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_topic, "MOST_WAITING", 10)
    with ServingBroker(tmp_path_factory.mktemp("broker"), settings=SETTINGS) as broker:
        broker.topics.is_down = True
        topic = access_topic.AccessTopic(broker.context)
        for _ in range(2):
            broker.on_loop(lambda: topic.take([{"time_ms": 1, "kind": "denied"}] * 8))
        assert broker.context.metrics.access_events_left_out == 6
