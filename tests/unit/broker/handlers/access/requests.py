"""One request for each API, with the rights that it wants: what `test_rights_of_each_api.py` sends."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.broker.rights.rule import CLUSTER_NAME, Operation, Pattern, Permission, Resource, Rule
from headrace.wire.errors import ErrorCode

TOPIC, OTHER, GROUP = "clicks", "orders", "readers"
ME = "User:ANONYMOUS"

T, G, C = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
X = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def right(operation: Operation, resource: Resource, name: str = CLUSTER_NAME, permission: Permission = Permission.ALLOW) -> Rule:
    """Return the rule that gives the client of these tests one right."""
    return Rule(resource, name, Pattern.LITERAL, ME, "*", operation, permission)


class Ask(NamedTuple):
    """A request, the rights that it wants, and the error when one of them lacks."""

    message: Mapping[str, Any]
    rights: Mapping[Rule, ErrorCode]
    first_version: int = 0


def _on_topic(operation: Operation) -> dict[Rule, ErrorCode]:
    return {right(operation, Resource.TOPIC, TOPIC): T}


def _on_group(operation: Operation) -> dict[Rule, ErrorCode]:
    return {right(operation, Resource.GROUP, GROUP): G}


def _on_cluster(operation: Operation) -> dict[Rule, ErrorCode]:
    return {right(operation, Resource.CLUSTER): C}


def _partitions(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": TOPIC, "topic": TOPIC, "partitions": [{"partition_index": 0, "partition": 0, **fields}]}]


_RESOURCE = {"resource_type": 2, "resource_name": TOPIC}
_BROKER = {"resource_type": 4, "resource_name": "1"}
_MEMBER = {"group_id": GROUP, "member_id": "m", "generation_id": 1, "group_instance_id": None}
_FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
_CREATION = {
    "resource_type": 2,
    "resource_name": OTHER,
    "resource_pattern_type": 3,
    "principal": "User:b",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}

ASKS: Mapping[int, list[Ask]] = {
    2: [
        Ask(
            {
                "replica_id": -1,
                "isolation_level": 0,
                "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]}],
            },
            _on_topic(Operation.DESCRIBE),
            1,
        )
    ],
    8: [
        Ask(
            {
                "group_id": GROUP,
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "group_instance_id": None,
                "retention_time_ms": -1,
                "topics": [
                    {
                        "name": TOPIC,
                        "partitions": [
                            {
                                "partition_index": 0,
                                "committed_offset": 0,
                                "committed_leader_epoch": -1,
                                "committed_metadata": "",
                            }
                        ],
                    }
                ],
            },
            _on_group(Operation.READ) | _on_topic(Operation.READ),
            2,
        )
    ],
    9: [
        Ask(
            {
                "group_id": GROUP,
                "topics": [{"name": TOPIC, "partition_indexes": [0]}],
                "groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}],
                "require_stable": False,
            },
            _on_group(Operation.DESCRIBE) | _on_topic(Operation.DESCRIBE),
            1,
        )
    ],
    10: [
        Ask({"key": GROUP, "key_type": 0, "coordinator_keys": [GROUP]}, _on_group(Operation.DESCRIBE)),
        Ask(
            {"key": "tx", "key_type": 1, "coordinator_keys": ["tx"]},
            {right(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "tx"): X},
            3,
        ),
    ],
    11: [
        Ask(
            {
                "group_id": GROUP,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": "unknown",
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
            _on_group(Operation.READ),
        )
    ],
    12: [Ask(_MEMBER, _on_group(Operation.READ))],
    13: [
        Ask(
            {"group_id": GROUP, "member_id": "m", "members": [{"member_id": "m", "group_instance_id": None}]},
            _on_group(Operation.READ),
        )
    ],
    14: [
        Ask(
            {**_MEMBER, "protocol_type": "consumer", "protocol_name": "range", "assignments": []},
            _on_group(Operation.READ),
        )
    ],
    15: [Ask({"groups": [GROUP], "include_authorized_operations": False}, _on_group(Operation.DESCRIBE))],
    19: [
        Ask(
            {
                "topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}],
                "timeout_ms": 1_000,
                "validate_only": True,
            },
            {right(Operation.CREATE, Resource.TOPIC, "new"): T},
            2,
        )
    ],
    20: [
        Ask(
            {"topic_names": [TOPIC], "topics": [{"name": TOPIC, "topic_id": None}], "timeout_ms": 1_000},
            _on_topic(Operation.DELETE),
            1,
        )
    ],
    21: [
        Ask(
            {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1_000},
            _on_topic(Operation.DELETE),
        )
    ],
    22: [
        Ask(
            {"transactional_id": None, "transaction_timeout_ms": 1_000, "producer_id": -1, "producer_epoch": -1},
            _on_cluster(Operation.IDEMPOTENT_WRITE),
        ),
        Ask(
            {"transactional_id": None, "transaction_timeout_ms": 1_000, "producer_id": -1, "producer_epoch": -1},
            {right(Operation.WRITE, Resource.TOPIC, "any"): C},
        ),
    ],
    23: [
        Ask(
            {
                "replica_id": -1,
                "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]}],
            },
            _on_topic(Operation.DESCRIBE),
        ),
    ],
    29: [Ask(_FILTER, _on_cluster(Operation.DESCRIBE))],
    30: [Ask({"creations": [_CREATION]}, _on_cluster(Operation.ALTER))],
    31: [Ask({"filters": [{**_FILTER, "principal_filter": "User:b"}]}, _on_cluster(Operation.ALTER))],
    32: [
        Ask(
            {"resources": [{**one, "configuration_keys": None}], "include_synonyms": False, "include_documentation": False},
            rights,
            1,
        )
        for one, rights in (
            (_RESOURCE, _on_topic(Operation.DESCRIBE_CONFIGS)),
            (_BROKER, _on_cluster(Operation.DESCRIBE_CONFIGS)),
        )
    ],
    33: [
        Ask({"resources": [{**one, "configs": []}], "validate_only": True}, rights)
        for one, rights in ((_RESOURCE, _on_topic(Operation.ALTER_CONFIGS)), (_BROKER, _on_cluster(Operation.ALTER_CONFIGS)))
    ],
    34: [
        Ask({"dirs": [{"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [0]}]}]}, _on_cluster(Operation.ALTER)),
    ],
    35: [Ask({"topics": None}, _on_cluster(Operation.DESCRIBE), 3)],
    37: [
        Ask(
            {"topics": [{"name": TOPIC, "count": 2, "assignments": None}], "timeout_ms": 1_000, "validate_only": True},
            _on_topic(Operation.ALTER),
        )
    ],
    42: [Ask({"groups_names": [GROUP]}, _on_group(Operation.DELETE))],
    43: [
        Ask(
            {"election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1_000},
            _on_cluster(Operation.ALTER),
        )
    ],
    44: [Ask({"resources": [{**_RESOURCE, "configs": []}], "validate_only": True}, _on_topic(Operation.ALTER_CONFIGS))],
    45: [
        Ask(
            {
                "timeout_ms": 1_000,
                "allow_replication_factor_change": True,
                "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [1]}]}],
            },
            _on_cluster(Operation.ALTER),
        )
    ],
    46: [Ask({"timeout_ms": 1_000, "topics": None}, _on_cluster(Operation.DESCRIBE))],
    47: [
        Ask(
            {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]},
            _on_group(Operation.DELETE) | _on_topic(Operation.READ),
        )
    ],
    48: [Ask({"components": [], "strict": False}, _on_cluster(Operation.DESCRIBE_CONFIGS))],
    49: [
        Ask(
            {"entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}], "ops": []}], "validate_only": True},
            _on_cluster(Operation.ALTER_CONFIGS),
        )
    ],
    50: [Ask({"users": []}, _on_cluster(Operation.DESCRIBE))],
    51: [Ask({"deletions": [{"name": "u", "mechanism": 1}], "upsertions": []}, _on_cluster(Operation.ALTER))],
    61: [Ask({"topics": [{"name": TOPIC, "partition_indexes": [0]}]}, _on_topic(Operation.READ))],
}
"""By API key. Produce, Fetch, Metadata, ListGroups and DescribeCluster have tests of their own."""
