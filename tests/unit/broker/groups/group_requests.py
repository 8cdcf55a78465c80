"""Requests of the group APIs, as clients send them."""

from typing import Any

from headrace.broker.groups.subscription import subscription
from headrace.wire.errors import ErrorCode
from tests.support.raw_kafka import RawClient


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


def sync(
    client: RawClient, joined: Any, assignments: dict[str, bytes] | None = None, *, version: int = 5, group: str = "g"
) -> Any:
    return client.ask(14, version, sync_message(joined, assignments, group=group))


def sync_message(joined: Any, assignments: dict[str, bytes] | None, *, group: str = "g") -> dict[str, Any]:
    return {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [
            {"member_id": member_id, "assignment": assignment} for member_id, assignment in (assignments or {}).items()
        ],
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
