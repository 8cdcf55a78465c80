"""Who leads, for a client that wrote to the wrong broker (KIP-951)."""

from dataclasses import replace
from pathlib import Path

from headrace.broker.handlers.current_leaders import produce_response
from headrace.broker.partitions.catalog import BrokerAddress, ReplicaView
from headrace.wire.errors import ErrorCode
from headrace.wire.messages.produce import ProduceResponsePartition, ProduceResponseTopic
from tests.support.serving_broker import ServingBroker

WRONG = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_client_at_the_wrong_broker_reads_who_leads_and_where_and_only_of_a_partition_that_is_replicated(
    tmp_path: Path,
) -> None:
    with ServingBroker(tmp_path, topics={"clicks": 3}) as serving:
        catalog = serving.topics.catalog
        states = {
            index: ReplicaView(leader=leader, leader_epoch=4, in_sync=(1, 2), replicas=(1, 2), targets=(), version=1)
            for index, leader in ((0, 2), (1, 3))
        }
        other = BrokerAddress(broker_id=2, host="other", port=9_002, endpoints={"PLAINTEXT": ("other", 9_002)})
        entry = replace(catalog.topics["clicks"], states=states)
        serving.topics.catalog = replace(catalog, topics={"clicks": entry}, brokers={2: other})
        answers = [ProduceResponsePartition(index, WRONG) for index in range(3)]
        topics = [ProduceResponseTopic("clicks", answers), ProduceResponseTopic("gone", answers[:1])]

        told = produce_response(serving.context, 10, "PLAINTEXT", topics)
        leaders = [answer.current_leader for answer in told.topics[0].partitions]
        assert leaders == [(2, 4), None, None], "broker 3 is not there, and partition 2 has one replica"
        assert told.topics[1].partitions[0].current_leader is None
        assert told.endpoints == {2: ("other", 9_002)}

        older = produce_response(serving.context, 9, "PLAINTEXT", topics)
        assert older.endpoints == {}
        assert older.topics is topics
