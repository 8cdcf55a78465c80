"""The table of served APIs, compared with another implementation: kafka-python's message schemas send every version of every
API, and must be able to read the whole of every response.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from headrace.broker.handlers.api_table import TABLE
from headrace.broker.settings.broker_settings import topic_settings
from tests.support.raw_kafka import batch
from tests.support.serving_broker import ServingBroker

TOPIC = "clicks"


def fields_of(api_key: int, version: int) -> dict[str, Any]:
    """Return a request's fields by Kafka's names, for kafka-python to write."""
    match api_key:
        case 0:
            partition = {"index": 0, "records": batch(b"one")}
            topics = [{"name": TOPIC, "partition_data": [partition]}]
            return {"transactional_id": None, "acks": -1, "timeout_ms": 1_000, "topic_data": topics}
        case 1:
            partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
            return {
                "max_wait_ms": 0,
                "min_bytes": 0,
                "max_bytes": 1 << 20,
                "isolation_level": 1,
                "session_id": 0,
                "session_epoch": -1,
                "topics": [{"topic": TOPIC, "partitions": [partition]}],
                "forgotten_topics_data": [],
                "rack_id": "",
            }
        case 2:
            partition = {"partition_index": 0, "timestamp": -1}
            return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": [partition]}]}
        case 3:
            return {"topics": [{"name": TOPIC}]}
        case 8:
            partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
            return {
                "group_id": "g",
                "generation_id_or_member_epoch": -1,
                "member_id": "",
                "topics": [{"name": TOPIC, "partitions": [partition]}],
            }
        case 9:
            topics = [{"name": TOPIC, "partition_indexes": [0]}]
            return {"groups": [{"group_id": "g", "topics": topics}]} if version >= 8 else {"group_id": "g", "topics": topics}
        case 10:
            return {"key_type": 0, "coordinator_keys": ["g"]} if version >= 4 else {"key": "g", "key_type": 0}
        case 11:
            return {
                "group_id": f"joined-{version}",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": "",
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b"\0\0"}],
            }
        case 12:
            return {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
        case 13:
            members = [{"member_id": "m", "group_instance_id": None}]
            return {"group_id": "g", "member_id": "m"} if version < 3 else {"group_id": "g", "members": members}
        case 14:
            return {
                "group_id": "g",
                "generation_id": 1,
                "member_id": "m",
                "group_instance_id": None,
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [{"member_id": "m", "assignment": b""}],
            }
        case 15:
            return {"groups": ["g"], "include_authorized_operations": True}
        case 16:
            return {"states_filter": []}
        case 17:
            return {"mechanism": "PLAIN"}
        case 18:
            return {"client_software_name": "test", "client_software_version": "1"} if version >= 3 else {}
        case 19:
            topic = {"name": f"made-{version}", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
            return {"topics": [topic], "timeout_ms": 1_000, "validate_only": False}
        case 20:
            name = f"made-{version}"
            return {"timeout_ms": 1_000, **({"topics": [{"name": name}]} if version >= 6 else {"topic_names": [name]})}
        case 21:
            return {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout_ms": 1_000}
        case 22:
            return {"transactional_id": None, "transaction_timeout_ms": 1_000}
        case 23:
            partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
            return {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": [partition]}]}
        case 29:
            any_of_all = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "operation": 1}
            return {**any_of_all, "principal_filter": None, "host_filter": None, "permission_type": 1}
        case 30:
            acl = {"resource_type": 2, "resource_name": TOPIC, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
            return {"creations": [{**acl, "principal": "User:a", "host": "*"}]}
        case 31:
            return {"filters": [fields_of(29, version)]}
        case 33:
            configs = [{"name": "retention.ms", "value": "5000"}]
            resource = {"resource_type": 2, "resource_name": TOPIC, "configs": configs}
            return {"resources": [resource], "validate_only": False}
        case 35:
            return {"topics": [{"topic": TOPIC, "partitions": [0]}]}
        case 36:
            return {"auth_bytes": b"\0user\0secret"}
        case 37:
            topic = {"name": TOPIC, "count": 2, "assignments": None}
            return {"topics": [topic], "timeout_ms": 1_000, "validate_only": True}
        case 44:
            configs = [{"name": "retention.ms", "config_operation": 0, "value": "5000"}]
            resource = {"resource_type": 2, "resource_name": TOPIC, "configs": configs}
            return {"resources": [resource], "validate_only": False}
        case 60:
            return {"include_cluster_authorized_operations": False, "endpoint_type": 1}
        case 32:
            return {"resources": [{"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}]}
        case 42:
            return {"groups_names": [f"gone-{version}"]}
        case 34:
            return {"dirs": [{"path": "/elsewhere", "topics": [{"name": TOPIC, "partitions": [0]}]}]}
        case 43:
            return {"election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1_000}
        case 45:
            topic = {"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [1]}]}
            return {"timeout_ms": 1_000, "allow_replication_factor_change": True, "topics": [topic]}
        case 46:
            return {"timeout_ms": 1_000, "topics": None}
        case 48:
            return {"components": [{"entity_type": "user", "match_type": 2, "match": None}], "strict": False}
        case 49:
            entity = [{"entity_type": "user", "entity_name": "a"}]
            operations = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
            return {"entries": [{"entity": entity, "ops": operations}], "validate_only": False}
        case 50:
            return {"users": [{"name": "a"}]}
        case 51:
            return {"deletions": [{"name": "a", "mechanism": 1}], "upsertions": []}
        case 61:
            return {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}
        case 47:
            return {"group_id": "gone", "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]}
    raise AssertionError(f"no request for API {api_key} here: add one for every line of the broker's table")


MESSAGES: dict[int, tuple[Any, Any]] = {
    0: (ProduceRequest, ProduceResponse),
    1: (FetchRequest, FetchResponse),
    2: (ListOffsetsRequest, ListOffsetsResponse),
    3: (MetadataRequest, MetadataResponse),
    8: (OffsetCommitRequest, OffsetCommitResponse),
    9: (OffsetFetchRequest, OffsetFetchResponse),
    10: (FindCoordinatorRequest, FindCoordinatorResponse),
    11: (JoinGroupRequest, JoinGroupResponse),
    12: (HeartbeatRequest, HeartbeatResponse),
    13: (LeaveGroupRequest, LeaveGroupResponse),
    14: (SyncGroupRequest, SyncGroupResponse),
    15: (DescribeGroupsRequest, DescribeGroupsResponse),
    16: (ListGroupsRequest, ListGroupsResponse),
    17: (SaslHandshakeRequest, SaslHandshakeResponse),
    18: (ApiVersionsRequest, ApiVersionsResponse),
    19: (CreateTopicsRequest, CreateTopicsResponse),
    20: (DeleteTopicsRequest, DeleteTopicsResponse),
    21: (DeleteRecordsRequest, DeleteRecordsResponse),
    22: (InitProducerIdRequest, InitProducerIdResponse),
    23: (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
    29: (DescribeAclsRequest, DescribeAclsResponse),
    30: (CreateAclsRequest, CreateAclsResponse),
    31: (DeleteAclsRequest, DeleteAclsResponse),
    32: (DescribeConfigsRequest, DescribeConfigsResponse),
    33: (AlterConfigsRequest, AlterConfigsResponse),
    35: (DescribeLogDirsRequest, DescribeLogDirsResponse),
    36: (SaslAuthenticateRequest, SaslAuthenticateResponse),
    37: (CreatePartitionsRequest, CreatePartitionsResponse),
    42: (DeleteGroupsRequest, DeleteGroupsResponse),
    44: (IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse),
    47: (OffsetDeleteRequest, OffsetDeleteResponse),
    34: (AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse),
    43: (ElectLeadersRequest, ElectLeadersResponse),
    45: (AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse),
    46: (ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse),
    48: (DescribeClientQuotasRequest, DescribeClientQuotasResponse),
    49: (AlterClientQuotasRequest, AlterClientQuotasResponse),
    50: (DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse),
    51: (AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse),
    60: (DescribeClusterRequest, DescribeClusterResponse),
    61: (DescribeProducersRequest, DescribeProducersResponse),
}

UNKNOWN_THERE = {(8, 1), (19, 0), (19, 1), (20, 0), (32, 0)}
"""Versions that kafka-python cannot write; each has a test of its own beside its decoder's."""
ERRORS = {
    11: {79}, 12: {25}, 13: {25}, 14: {25}, 17: {34}, 20: {3}, 29: {54}, 30: {54}, 31: {54}, 34: {57}, 36: {34}, 42: {69},
    43: {84}, 47: {69}, 50: {91}, 51: {91},
}  # fmt: skip
"""Allowed error codes of these requests besides 0: an id is checked first; there is no such member, topic or group;
this broker has no authorizer, no SASL and no users."""

SERVED = [
    (key, version)
    for key, api in TABLE.items()
    for version in range(api.served_from, api.highest + 1)
    if (key, version) not in UNKNOWN_THERE
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServingBroker]:
    with ServingBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1}) as serving, serving.client() as client:
        client.produce(TOPIC, batch(b"zero"))
        yield serving


def errors_in(message: Any) -> set[int]:
    """Return every error code anywhere in a response, as kafka-python read it."""
    found: set[int] = set()
    pending: list[Any] = [message.to_dict()]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            found |= {value for name, value in one.items() if name == "error_code"}
            pending += one.values()
        elif isinstance(one, list | tuple):
            pending += one
    return found


def made(container: Any, version: int, values: dict[str, Any]) -> Any:
    """Return kafka-python's message (or a part of one) with these values; parts are given as dictionaries."""
    kinds = {field.name: field for field in container._struct._fields}
    for name, value in values.items():
        if kinds[name].is_struct_array() and value is not None:
            values[name] = [made(getattr(container, kinds[name].type_str), version, one) for one in value]
    return container(version=version, **{name: value for name, value in values.items() if kinds[name].for_version_q(version)})


@pytest.mark.parametrize(("api_key", "version"), SERVED, ids=[f"{TABLE[key].name} v{version}" for key, version in SERVED])
def test_kafka_python_can_ask_and_read_every_served_version(broker: ServingBroker, api_key: int, version: int) -> None:
    request_type, response_type = MESSAGES[api_key]
    fields = fields_of(api_key, version)
    if api_key == 1:
        fields["topics"][0]["topic_id"] = broker.topics.catalog.topics[TOPIC].topic_id  # version 13 and later ask by it
    request = made(request_type, version, fields)
    with broker.client() as client:
        body = bytes(client.request(api_key, version, bytes(request.encode(version=version, header=False))))
    response = response_type.decode(body, version=version)
    assert errors_in(response) <= {0} | ERRORS.get(api_key, set())
    response._header = None  # a response that was read has no header of its own, and the writer needs one
    assert bytes(response.encode(version=version, header=False)) == body, "nothing is left over or missing"


def test_every_line_of_the_table_is_covered_here() -> None:
    assert MESSAGES.keys() == TABLE.keys()


def test_every_setting_of_a_topic_is_shown_by_describe_configs(broker: ServingBroker) -> None:
    request = made(DescribeConfigsRequest, 4, fields_of(32, 4))
    with broker.client() as client:
        body = client.request(32, 4, bytes(request.encode(version=4, header=False)))
    (result,) = DescribeConfigsResponse.decode(bytes(body), version=4).results
    assert {one.name for one in result.configs} == set(topic_settings.TABLE)
