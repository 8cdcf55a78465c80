import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.connection.cluster import METADATA_MAX_AGE_MS, Cluster, parse_bootstrap
from headrace.client.errors import BrokerError, BrokerUnreachable, InvalidAddress, LeaderUnknown, UnknownTopic
from headrace.runtime.clock import ManualClock
from headrace.wire.errors import ErrorCode
from tests.support.processes import free_port
from tests.support.scripted_broker import METADATA, Fault, Partition, ScriptedBroker


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True), st.integers(1, 65_535)), min_size=1, max_size=4)
)
def test_a_bootstrap_list_is_read_back(addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(", ".join(f"{host}:{port}" for host, port in addresses)) == addresses


def test_an_ipv6_address_loses_its_brackets() -> None:
    assert parse_bootstrap("[::1]:9092") == [("::1", 9092)]


@pytest.mark.parametrize("bootstrap", ["", "host", "host:", ":9092", "host:port", "host:0", "host:70000", "a:1,,b:2", "host:-1"])
def test_a_wrong_bootstrap_list_is_refused_with_the_form_it_should_have(bootstrap: str) -> None:
    with pytest.raises(InvalidAddress, match="is not host:port"):
        Cluster(bootstrap)


def test_topics_and_partitions_are_listed_in_order(cluster: Cluster) -> None:
    assert cluster.topics() == ["clicks", "views"]
    assert cluster.partitions("views") == [0, 1, 2]


def test_an_unknown_topic_is_a_passing_failure_and_is_not_made_by_asking(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.auto_create = True
    with pytest.raises(UnknownTopic, match="'nothing'") as caught:
        cluster.partitions("nothing")
    assert caught.value.retriable
    assert cluster.topics() == ["clicks", "views"]
    assert cluster.partitions("nothing", may_create=True) == [0, 1, 2]


def test_a_refusal_for_good_is_told_from_a_passing_one(broker: ScriptedBroker, cluster: Cluster) -> None:
    broker.fail(METADATA, Fault(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION), Fault(error_code=ErrorCode.LEADER_NOT_AVAILABLE))
    with pytest.raises(BrokerError, match=r"INVALID_TOPIC_EXCEPTION \(17\)") as caught:
        cluster.partitions("clicks")
    assert not caught.value.retriable
    with pytest.raises(BrokerError, match="LEADER_NOT_AVAILABLE") as caught:
        cluster.partitions("clicks")
    assert caught.value.retriable


def test_what_is_known_is_not_asked_again_until_it_is_forgotten_or_old(broker: ScriptedBroker) -> None:
    clock = ManualClock()
    cluster = Cluster(broker.address, clock=clock)
    cluster.partitions("clicks")
    cluster.partitions("clicks")
    assert broker.count(METADATA) == 1
    cluster.forget("clicks")
    cluster.partitions("clicks")
    assert broker.count(METADATA) == 2
    broker.topics["clicks"].append(Partition())
    clock.advance(METADATA_MAX_AGE_MS)
    assert cluster.partitions("clicks") == [0, 1]
    cluster.close()


def test_any_bootstrap_address_that_answers_will_do(broker: ScriptedBroker) -> None:
    cluster = Cluster(f"127.0.0.1:{free_port()},{broker.address}")
    assert cluster.partitions("clicks") == [0]
    cluster.close()


def test_when_no_broker_answers_the_last_one_asked_is_named() -> None:
    port = free_port()
    with pytest.raises(BrokerUnreachable, match=f"127.0.0.1:{port}"):
        Cluster(f"127.0.0.1:{port}").topics()


def test_a_partition_that_is_not_there_has_no_leader(cluster: Cluster) -> None:
    with pytest.raises(LeaderUnknown, match=r"no leader for views-9: the topic has partitions \[0, 1, 2\]"):
        cluster.leader("views", 9)


def test_lanes_have_connections_of_their_own(cluster: Cluster) -> None:
    first = cluster.leader("views", 0, lane="fetch")
    assert cluster.leader("views", 1, lane="fetch") is first
    assert cluster.leader("views", 0, lane="produce") is not first


def test_after_close_every_request_fails(cluster: Cluster) -> None:
    cluster.topics()
    cluster.close()
    with pytest.raises(BrokerUnreachable, match="closed"):
        cluster.topics()
