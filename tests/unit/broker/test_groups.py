"""The group APIs over real sockets: each version, parked answers, lost connections, what administrators see. ZooKeeper is
played.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.catalog import BrokerAddress, Catalog
from headrace.broker.errors import SettingsRefused
from headrace.broker.group_desk import limits_of
from headrace.broker.groups.coordinator_selection import coordinator_of
from headrace.broker.groups.limits import GroupLimits
from headrace.broker.groups.subscription import assignment, subscribed_topics, subscription
from headrace.broker.handlers.group_id import MOST_NAMED
from headrace.broker.settings import from_words
from headrace.coordination.committed_offset import CommittedOffset
from headrace.coordination.group_directory import PaperMember
from headrace.wire import control
from headrace.wire.errors import ErrorCode
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient
from tests.unit.broker.serving import ServingBroker
from tests.unit.broker.test_offsets import commit_message

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path, topics={"clicks": 2}, settings=SETTINGS) as serving:
        yield serving


@pytest.fixture
def client(broker: ServingBroker) -> Iterator[RawClient]:
    with broker.client() as raw:
        yield raw


def join_message(group: str = "g", member_id: str = "", *, instance: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "member_id": member_id,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(["clicks"])}],
        **more,
    }


def join(client: RawClient, group: str = "g", member_id: str = "", *, version: int = 7, **more: Any) -> Any:
    answer = client.ask(11, version, join_message(group, member_id, **more))
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return client.ask(11, version, join_message(group, answer.member_id, **more))
    return answer


def sync(client: RawClient, joined: Any, shares: dict[str, bytes] | None = None, *, version: int = 5, group: str = "g") -> Any:
    return client.ask(14, version, sync_message(joined, shares, group=group))


def sync_message(joined: Any, shares: dict[str, bytes] | None, *, group: str = "g") -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member_id, "assignment": share} for member_id, share in (shares or {}).items()],
    }


def heartbeat(client: RawClient, joined: Any, *, version: int = 4) -> int:
    fields = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id, "group_instance_id": None}
    return int(client.ask(12, version, fields).error_code)


def describe(client: RawClient, *groups: str, version: int = 5) -> list[Any]:
    return list(client.ask(15, version, {"groups": groups, "include_authorized_operations": False}).groups)


def listed(client: RawClient, *states: str) -> dict[str, str]:
    answer = client.ask(16, 4, {"states_filter": states})
    assert answer.error_code == 0
    return {str(one.group_id): one.group_state for one in answer.groups}


def commit(client: RawClient, joined: Any | None, offset: int, *, version: int = 8) -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": 2, "committed_metadata": "note"}
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1 if joined is None else joined.generation_id,
        "member_id": "" if joined is None else joined.member_id,
        "group_instance_id": None,
        "retention_time_ms": -1,
        "topics": [{"name": "clicks", "partitions": [partition]}],
    }
    return int(client.ask(8, version, fields).topics[0].partitions[0].error_code)


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
        # Its leaving is read the moment its join is answered, in the middle of answering all joins of the generation.
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
    brokers = {1: BrokerAddress(broker_id=1, host="127.0.0.1", port=1), 2: BrokerAddress(broker_id=2, host="other", port=22)}
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


# -- what administrators see -------------------------------------


def test_a_group_is_described_with_its_members_while_it_stands(client: RawClient) -> None:
    joined = join(client, instance="i1")
    (before,) = describe(client, "g")
    assert (before.group_state, before.protocol_data) == ("CompletingRebalance", "")
    assert before.members[0].member_metadata == b""
    fields = sync_message(joined, {joined.member_id: b"share"}) | {"group_instance_id": "i1"}
    assert client.ask(14, 5, fields).error_code == 0
    (group,) = describe(client, "g")
    (member,) = group.members
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert (member.client_id, member.client_host, member.group_instance_id) == ("raw", "127.0.0.1", "i1")
    assert (member.member_id, member.member_assignment) == (joined.member_id, b"share")
    assert subscribed_topics(member.member_metadata) == {"clicks"}
    assert listed(client) == {"g": "Stable"}
    assert listed(client, "empty", "DEAD") == {}
    assert listed(client, "stable") == {"g": "Stable"}


def test_a_group_in_which_somebody_is_only_expected_is_listed_and_described_alike(client: RawClient) -> None:
    """It was listed as Empty and described as Dead."""
    assert client.ask(11, 7, join_message()).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert listed(client) == {"g": "Empty"}
    (group,) = describe(client, "g")
    assert (group.group_state, list(group.members)) == ("Empty", [])


def test_while_a_group_rebalances_the_last_shares_are_shown(broker: ServingBroker, client: RawClient) -> None:
    joined = join(client)
    assert sync(client, joined, {joined.member_id: b"share"}).error_code == 0
    with broker.client() as other:
        other.send(11, 0, control.encode_request(11, 0, join_message()))
        (group,) = eventually(lambda: [one for one in describe(client, "g") if one.group_state == "PreparingRebalance"])
        assert [one.member_assignment for one in group.members] == [b"share", b""]


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


def test_authorized_operations_are_told_when_asked_for(client: RawClient) -> None:
    for asked, told in ((False, -(1 << 31)), (True, 328)):
        (group,) = client.ask(15, 5, {"groups": ["g"], "include_authorized_operations": asked}).groups
        assert group.authorized_operations == told


def test_groups_without_members_show_by_their_offsets_and_consumers_of_the_papers_kind_as_members(
    broker: ServingBroker, client: RawClient
) -> None:
    broker.offsets.offsets["left"] = {("clicks", 0): CommittedOffset(1)}
    broker.offsets.paper_members["paper"] = {"c1": PaperMember(topics=["clicks"], partitions={"clicks": [0, 1]})}
    left, paper, nothing = describe(client, "left", "paper", "nothing")
    assert (left.group_state, left.protocol_type, list(left.members)) == ("Empty", "consumer", [])
    assert (nothing.group_state, nothing.error_code) == ("Dead", 0)
    assert (paper.group_state, paper.protocol_data, paper.members[0].member_id) == ("Stable", "zookeeper", "c1")
    assert paper.members[0].member_assignment == assignment({"clicks": [0, 1]})
    assert listed(client) == {"left": "Empty", "paper": "Stable"}


def test_a_group_is_deleted_with_its_offsets_unless_it_has_members(broker: ServingBroker, client: RawClient) -> None:
    broker.offsets.offsets["left"] = {("clicks", 0): CommittedOffset(1)}
    broker.offsets.paper_members["paper"] = {"c1": PaperMember(topics=["clicks"])}
    join(client)
    names = ["left", "paper", "g", "nothing", ""]
    results = client.ask(42, 2, {"groups_names": names}).results
    assert {str(one.group_id): int(one.error_code) for one in results} == {
        "left": 0,
        "paper": ErrorCode.NON_EMPTY_GROUP,
        "g": ErrorCode.NON_EMPTY_GROUP,
        "nothing": ErrorCode.GROUP_ID_NOT_FOUND,
        "": ErrorCode.INVALID_GROUP_ID,
    }
    assert "left" not in broker.offsets.offsets


def delete_offsets(client: RawClient, topic: str, *partitions: int) -> tuple[int, dict[int, int]]:
    topics = [{"name": topic, "partitions": [{"partition_index": index} for index in partitions]}]
    answer = client.ask(47, 0, {"group_id": "g", "topics": topics})
    return int(answer.error_code), {
        one.partition_index: int(one.error_code) for topic in answer.topics for one in topic.partitions
    }


def test_single_offsets_are_deleted_but_not_those_that_members_read(broker: ServingBroker, client: RawClient) -> None:
    assert delete_offsets(client, "clicks", 0) == (ErrorCode.GROUP_ID_NOT_FOUND, {})
    broker.offsets.offsets["g"] = {("clicks", 0): CommittedOffset(1), ("gone", 0): CommittedOffset(2)}
    assert delete_offsets(client, "clicks", 1, 7) == (0, {1: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    joined = join(client)
    assert delete_offsets(client, "clicks", 0) == (0, {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert delete_offsets(client, "gone", 0) == (0, {0: 0})
    assert broker.offsets.offsets["g"] == {("clicks", 0): CommittedOffset(1)}
    client.ask(13, 0, {"group_id": "g", "member_id": joined.member_id})
    assert delete_offsets(client, "clicks", 0) == (0, {0: 0})
    join(client, protocol_type="connect")
    assert delete_offsets(client, "clicks", 0) == (ErrorCode.NON_EMPTY_GROUP, {})


def test_while_zookeeper_is_away_administrators_are_told_and_members_live_on(broker: ServingBroker, client: RawClient) -> None:
    joined = join(client)
    sync(client, joined)
    broker.offsets.is_away = True
    away = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.ask(16, 4, {"states_filter": []}).error_code == away
    assert [one.error_code for one in describe(client, "g", "other")] == [0, away]
    assert client.ask(42, 2, {"groups_names": ["other"]}).results[0].error_code == away
    assert delete_offsets(client, "other", 0)[0] == away
    assert commit(client, joined, 1) == away
    assert heartbeat(client, joined) == 0


def test_more_groups_than_one_request_is_answered_for_are_refused_by_name(client: RawClient) -> None:
    names = [str(number) for number in range(MOST_NAMED + 2)]
    refused = ErrorCode.INVALID_REQUEST
    assert [one.error_code for one in describe(client, *names)] == [0] * MOST_NAMED + [refused] * 2
    deleted = client.ask(42, 2, {"groups_names": names}).results
    assert [one.error_code for one in deleted] == [ErrorCode.GROUP_ID_NOT_FOUND] * MOST_NAMED + [refused] * 2


# -- commits of members -------------------------------------


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


# -- settings ----------------------------------------------


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


def test_offsets_of_topics_that_consumers_of_the_papers_kind_read_are_not_deleted_under_them(
    broker: ServingBroker, client: RawClient
) -> None:
    broker.offsets.paper_members["paper"] = {"c1": PaperMember(topics=["clicks"])}
    broker.offsets.offsets["paper"] = {("clicks", 0): CommittedOffset(5), ("other", 0): CommittedOffset(6)}
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("clicks", "other")]
    answer = client.ask(47, 0, {"group_id": "paper", "topics": topics})
    codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {"clicks": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "other": ErrorCode.NONE}
    assert set(broker.offsets.offsets["paper"]) == {("clicks", 0)}


def test_a_request_for_very_many_coordinators_is_answered_for_as_many_as_others_can_wait_for(client: RawClient) -> None:
    keys = [f"g{number}" for number in range(MOST_NAMED + 5)]
    answer = client.ask(10, 4, {"key_type": 0, "coordinator_keys": keys})
    assert [one.key for one in answer.coordinators] == keys
    codes = [int(one.error_code) for one in answer.coordinators]
    assert codes == [0] * MOST_NAMED + [int(ErrorCode.INVALID_REQUEST)] * 5
