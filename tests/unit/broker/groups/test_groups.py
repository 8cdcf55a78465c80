"""The group APIs over real sockets: each version, parked requests, lost connections. ZooKeeper is simulated."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.broker.errors import SettingsRefused
from headrace.broker.groups.coordinator_selection import coordinator_of
from headrace.broker.groups.group_service import limits_of
from headrace.broker.groups.limits import GroupLimits
from headrace.broker.groups.subscription import assignment
from headrace.broker.partitions.catalog import BrokerAddress, Catalog
from headrace.broker.settings.broker_settings import from_words
from headrace.coordination.committed_offset import CommittedOffset
from headrace.coordination.group_directory import PaperMember
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient
from tests.support.serving_broker import ServingBroker
from tests.unit.broker.groups.group_requests import commit, describe, heartbeat, join, join_message, listed, sync, sync_message
from tests.unit.broker.handlers.test_offsets import commit_message

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2}, settings=SETTINGS) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


@pytest.mark.parametrize("rebalance_timeout_ms", [-1, 0])
def test_a_rebalance_timeout_that_nobody_means_does_not_put_members_out(client: RawClient, rebalance_timeout_ms: int) -> None:
    joined = join(client, rebalance_timeout_ms=rebalance_timeout_ms)
    assert joined.error_code == 0
    assert sync(client, joined, {joined.member_id: b"x"}).assignment == b"x"
    assert heartbeat(client, joined) == 0


@pytest.mark.parametrize("version", range(8))
def test_a_member_goes_through_its_life_in_each_version(client: RawClient, version: int) -> None:
    joined = join(client, version=version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert [one.member_id for one in joined.members] == [joined.member_id] == [joined.leader]
    share = assignment({"clicks": [0, 1]})
    assert sync(client, joined, {joined.member_id: share}, version=min(version, 5)).assignment == share
    assert heartbeat(client, joined, version=min(version, 4)) == 0
    assert commit(client, joined, 5, version=max(2, version)) == 0
    if version < 3:
        left = client.ask(13, version, {"group_id": "g", "member_id": joined.member_id})
        assert left.error_code == 0
    else:
        members = [{"member_id": one, "group_instance_id": None, "reason": "done"} for one in (joined.member_id, "stranger")]
        left = client.ask(13, min(version, 5), {"group_id": "g", "members": members})
        assert [one.error_code for one in left.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert listed(client) == {"g": "Empty"}


def test_a_parked_join_and_sync_are_answered_when_the_others_have_done_their_part(broker: ServingBroker) -> None:
    with broker.client() as one, broker.client() as two:
        first = join(one)
        newcomer = two.ask(11, 7, join_message()).member_id
        two.send(11, 7, control.encode_request(11, 7, join_message(member_id=newcomer)))
        eventually(lambda: heartbeat(one, first) == ErrorCode.REBALANCE_IN_PROGRESS, what="the rebalance told")
        again = join(one, member_id=first.member_id)
        second = control.decode_response(11, 7, two.receive(11, 7)[1])
        assert (again.generation_id, second.generation_id) == (2, 2)
        two.send(14, 5, control.encode_request(14, 5, sync_message(second, None)))
        eventually(lambda: broker.context.groups.get("g").members[second.member_id].sync_ticket, what="the sync parked")  # type: ignore[union-attr]
        sync(one, again, {again.member_id: b"1", second.member_id: b"2"})
        assert control.decode_response(14, 5, two.receive(14, 5)[1]).assignment == b"2"


def test_a_request_behind_a_parked_join_on_the_same_connection_waits_for_it(broker: ServingBroker) -> None:
    with broker.client() as one, broker.client() as two:
        first = join(one)
        newcomer = two.ask(11, 7, join_message()).member_id
        two.send(11, 7, control.encode_request(11, 7, join_message(member_id=newcomer)))
        members = [{"member_id": newcomer, "group_instance_id": None}]
        two.send(13, 3, control.encode_request(13, 3, {"group_id": "g", "members": members}))
        eventually(lambda: heartbeat(one, first) == ErrorCode.REBALANCE_IN_PROGRESS, what="the rebalance told")
        one.send(11, 7, control.encode_request(11, 7, join_message(member_id=first.member_id)))
        assert control.decode_response(11, 7, two.receive(11, 7)[1]).generation_id == 2
        # Its LeaveGroup is read as soon as its join is answered, while other joins of the generation are still being answered.
        assert control.decode_response(13, 3, two.receive(13, 3)[1]).members[0].error_code == 0
        assert control.decode_response(11, 7, one.receive(11, 7)[1]).generation_id == 2
        assert join(one, member_id=first.member_id).generation_id == 3


def test_a_member_outlives_the_connection_that_its_join_was_parked_on(broker: ServingBroker) -> None:
    with broker.client() as one:
        first = join(one)
        two = broker.client()
        newcomer = two.ask(11, 7, join_message()).member_id
        two.send(11, 7, control.encode_request(11, 7, join_message(member_id=newcomer)))
        eventually(lambda: heartbeat(one, first) == ErrorCode.REBALANCE_IN_PROGRESS, what="the rebalance told")
        two.close()
        again = join(one, member_id=first.member_id)
        assert (again.generation_id, {one.member_id for one in again.members}) == (2, {first.member_id, newcomer})
        with broker.client() as back:
            assert join(back, member_id=newcomer).generation_id == 2


def test_a_silent_member_is_out_after_its_session(broker: ServingBroker, client: RawClient) -> None:
    joined = join(client, session_timeout_ms=100)
    eventually(lambda: len(broker.context.groups) == 0, what="the group gone")
    assert heartbeat(client, joined) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_when_the_broker_stops_is_sent_to_look_for_its_coordinator(broker: ServingBroker) -> None:
    with broker.client() as one, broker.client() as two:
        first = join(one)
        newcomer = two.ask(11, 7, join_message()).member_id
        two.send(11, 7, control.encode_request(11, 7, join_message(member_id=newcomer)))
        eventually(lambda: heartbeat(one, first) == ErrorCode.REBALANCE_IN_PROGRESS, what="the rebalance told")
        broker.on_loop(lambda: broker.server.finish(lambda: None))
        assert control.decode_response(11, 7, two.receive(11, 7)[1]).error_code == ErrorCode.NOT_COORDINATOR


def test_a_group_of_several_brokers_is_served_by_one_of_them_and_the_others_say_so(
    broker: ServingBroker, client: RawClient
) -> None:
    joined = join(client)
    addresses = {1: ("127.0.0.1", 1), 2: ("other", 22)}
    brokers = {
        number: BrokerAddress(broker_id=number, host=host, port=port, endpoints={"PLAINTEXT": (host, port)})
        for number, (host, port) in addresses.items()
    }
    theirs = next(name for name in map(str, range(100)) if coordinator_of(name, brokers) == 2)
    assert join(client, theirs).error_code == 0

    def two_brokers() -> None:
        broker.topics.catalog = Catalog(cluster_id="test", topics=broker.topics.catalog.topics, brokers=brokers)

    broker.on_loop(two_brokers)
    found = client.ask(10, 4, {"key_type": 0, "coordinator_keys": [theirs]}).coordinators[0]
    assert (found.node_id, found.host, found.port) == (2, "other", 22)
    assert join(client, theirs).error_code == ErrorCode.NOT_COORDINATOR
    assert describe(client, theirs)[0].error_code == ErrorCode.NOT_COORDINATOR
    eventually(lambda: broker.context.groups.get(theirs) is None, what="the group handed over")
    if coordinator_of("g", brokers) == 1:
        assert heartbeat(client, joined) == 0


def test_only_the_groups_of_a_broker_that_comes_or_goes_move() -> None:
    names = [f"group-{number}" for number in range(1_000)]
    before = {name: coordinator_of(name, [1, 2, 3]) for name in names}
    after = {name: coordinator_of(name, [1, 2, 3, 4]) for name in names}
    moved = [name for name in names if before[name] != after[name]]
    assert all(after[name] == 4 for name in moved)
    assert 150 < len(moved) < 350
    assert all(150 < list(after.values()).count(broker_id) < 350 for broker_id in (1, 2, 3, 4))


def test_a_sync_of_version_5_that_does_not_say_which_protocol_is_refused(client: RawClient) -> None:
    joined = join(client)
    for unsaid in ("protocol_type", "protocol_name"):
        message = sync_message(joined, {joined.member_id: b"share"}) | {unsaid: None}
        assert client.ask(14, 5, message).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_commit_for_a_partition_that_is_not_there_says_so_whoever_sends_it(client: RawClient) -> None:
    joined = join(client)
    partitions = [{"partition_index": index, "committed_offset": 1, "committed_leader_epoch": -1} for index in (0, 9)]
    fields = {"group_id": "g", "generation_id_or_member_epoch": joined.generation_id + 1, "member_id": joined.member_id}
    topics = [{"name": "clicks", "partitions": [one | {"committed_metadata": ""} for one in partitions]}]
    answer = client.ask(8, 8, {**fields, "group_instance_id": None, "topics": topics})
    codes = [one.error_code for one in answer.topics[0].partitions]
    assert codes == [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_members_commit_for_their_generation_only(broker: ServingBroker, client: RawClient) -> None:
    assert commit(client, None, 1) == 0
    joined = join(client)
    assert commit(client, joined, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    sync(client, joined)
    assert commit(client, joined, 2) == 0
    assert commit(client, None, 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(client, replace(joined, generation_id=9), 4) == ErrorCode.ILLEGAL_GENERATION
    assert broker.offsets.offsets["g"] == {("clicks", 0): CommittedOffset(2, 2, "note")}


@pytest.mark.parametrize("group", ["", "x" * 250])
def test_a_group_id_that_cannot_be_kept_is_refused_by_every_api(client: RawClient, group: str) -> None:
    wrong = ErrorCode.INVALID_GROUP_ID
    nobody = {"group_id": group, "generation_id": 1, "member_id": "m", "group_instance_id": None}
    assert join(client, group).error_code == wrong
    assert client.ask(12, 4, nobody).error_code == wrong
    assert client.ask(14, 5, {**nobody, "protocol_type": None, "protocol_name": None, "assignments": []}).error_code == wrong
    assert client.ask(13, 5, {"group_id": group, "members": []}).error_code == wrong
    assert describe(client, group)[0].error_code == wrong
    assert client.ask(47, 0, {"group_id": group, "topics": []}).error_code == wrong


def test_session_bounds_that_nobody_can_keep_to_are_a_fault_at_the_start(tmp_path: Path) -> None:
    words = ["group.min.session.timeout.ms=9000", "group.max.session.timeout.ms=8000"]
    with pytest.raises(SettingsRefused, match=r"group\.min\.session\.timeout\.ms is above"):
        from_words(data=tmp_path, words=words)


def test_the_settings_reach_the_groups(tmp_path: Path) -> None:
    settings = {
        "group.initial.rebalance.delay.ms": 1,
        "group.min.session.timeout.ms": 2,
        "group.max.session.timeout.ms": 3,
        "group.max.size": 4,
        "groups.max": 5,
        "groups.max.bytes": 65_536,
    }
    made = from_words(data=tmp_path, words=[f"{name}={value}" for name, value in settings.items()])
    assert limits_of(made) == GroupLimits(
        initial_rebalance_delay_ms=1,
        min_session_timeout_ms=2,
        max_session_timeout_ms=3,
        members_per_group=4,
        groups=5,
        bytes=65_536,
    )


def test_a_kafka_client_is_refused_in_a_group_of_the_papers_consumers_and_let_in_when_they_are_gone(
    broker: ServingBroker, client: RawClient
) -> None:
    broker.offsets.paper_members["paper"] = {"c1": PaperMember(topics=["clicks"])}
    for version in range(8):
        assert join(client, "paper", version=version).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert len(broker.context.groups) == 0
    del broker.offsets.paper_members["paper"]
    assert join(client, "paper").error_code == ErrorCode.NONE


def test_while_nobody_can_tell_who_is_in_a_group_a_first_member_is_told_to_come_again_and_present_ones_stay(
    broker: ServingBroker, client: RawClient
) -> None:
    joined = join(client, "known")
    sync(client, joined, {joined.member_id: b""}, group="known")
    broker.offsets.is_away = True
    assert join(client, "new").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = join(client, "known", joined.member_id)
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, joined.generation_id + 1)


def test_a_client_that_goes_away_before_it_is_known_who_is_in_its_group_leaves_nothing(broker: ServingBroker) -> None:
    broker.offsets.gate.clear()
    with broker.client() as other:
        held = control.encode_request(8, 8, commit_message("g", "clicks", {0: 1}))
        other.send(8, 8, held)  # ZooKeeper's thread waits in this
        with broker.client() as client:
            client.send(11, 3, control.encode_request(11, 3, join_message("gone")))
            broker.on_loop(lambda: None)
        eventually(lambda: broker.server.connection_count == 1, what="the connection gone")
        broker.offsets.gate.set()
        other.receive(8, 8)
        broker.on_loop(lambda: None)
    assert len(broker.context.groups) == 0
