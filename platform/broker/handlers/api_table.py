"""The APIs that this broker serves: one table, which the router follows and ApiVersions answers.

Minima are advertised low, because librdkafka before 2.11.1 turns compression and message format 2 off when certain old
versions are missing from the advertised ranges, whether it uses them or not (facts/kafka_apis_minimal_broker.md, trap 1).
`served_from` is the lowest version that is really read. What an API does is the first sentence of its handler's file."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..event_loop.response_generators import ResponseGenerator
from ..replicas.handing_over import HAND_OVER_KEY
from ..replicas.messages import POLL_KEY, TELL_KEY, VERSION
from ..replicas.recovering import HOLDING_KEY, RECOVER_KEY
from ..replicas.scrub_messages import COMPARE_KEY, READ_KEY
from . import (
    acls,
    alter_configs,
    alter_replica_log_dirs,
    api_versions,
    client_quotas,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_damage,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_recovery,
    elect_leaders,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    reassignments,
    replica_messages,
    sasl,
    scram_credentials,
    sync_group,
)
from .broker import Answer, Broker
from .request import Request

Handler = Callable[[Broker, Request], Answer | ResponseGenerator]


class Api(NamedTuple):
    """One line of the table."""

    name: str
    lowest: int
    highest: int
    served_from: int
    handler: Handler
    below: Handler | None = None
    """Answers versions from `lowest` to below `served_from`, where the protocol has an error for them."""


TABLE: Mapping[int, Api] = {
    produce.KEY: Api("Produce", 0, 10, 3, produce.handle, produce.handle_old),
    fetch.KEY: Api("Fetch", 4, 16, 4, fetch.handle),
    list_offsets.KEY: Api("ListOffsets", 0, 7, 0, list_offsets.handle),
    metadata.KEY: Api("Metadata", 0, 12, 0, metadata.handle),
    offset_commit.KEY: Api("OffsetCommit", 1, 8, 1, offset_commit.handle),
    offset_fetch.KEY: Api("OffsetFetch", 1, 8, 1, offset_fetch.handle),
    find_coordinator.KEY: Api("FindCoordinator", 0, 4, 0, find_coordinator.handle),
    join_group.KEY: Api("JoinGroup", 0, 7, 0, join_group.handle),
    heartbeat.KEY: Api("Heartbeat", 0, 4, 0, heartbeat.handle),
    leave_group.KEY: Api("LeaveGroup", 0, 5, 0, leave_group.handle),
    sync_group.KEY: Api("SyncGroup", 0, 5, 0, sync_group.handle),
    describe_groups.KEY: Api("DescribeGroups", 0, 5, 0, describe_groups.handle),
    list_groups.KEY: Api("ListGroups", 0, 4, 0, list_groups.handle),
    api_versions.KEY: Api("ApiVersions", 0, 3, 0, api_versions.handle),
    create_topics.KEY: Api("CreateTopics", 0, 7, 0, create_topics.handle),
    delete_topics.KEY: Api("DeleteTopics", 0, 6, 0, delete_topics.handle),
    delete_records.KEY: Api("DeleteRecords", 0, 2, 0, delete_records.handle),
    init_producer_id.KEY: Api("InitProducerId", 0, 4, 0, init_producer_id.handle),
    offset_for_leader_epoch.KEY: Api("OffsetForLeaderEpoch", 2, 4, 2, offset_for_leader_epoch.handle),
    acls.DESCRIBE_KEY: Api("DescribeAcls", 1, 3, 1, acls.describe),
    acls.CREATE_KEY: Api("CreateAcls", 1, 3, 1, acls.create),
    acls.DELETE_KEY: Api("DeleteAcls", 1, 3, 1, acls.delete),
    describe_configs.KEY: Api("DescribeConfigs", 0, 4, 0, describe_configs.handle),
    alter_configs.KEY: Api("AlterConfigs", 0, 2, 0, alter_configs.handle),
    alter_replica_log_dirs.KEY: Api("AlterReplicaLogDirs", 1, 2, 1, alter_replica_log_dirs.handle),
    describe_log_dirs.KEY: Api("DescribeLogDirs", 0, 4, 0, describe_log_dirs.handle),
    sasl.HANDSHAKE_KEY: Api("SaslHandshake", 0, 1, 0, sasl.handshake),
    sasl.AUTHENTICATE_KEY: Api("SaslAuthenticate", 0, 2, 0, sasl.authenticate),
    create_partitions.KEY: Api("CreatePartitions", 0, 3, 0, create_partitions.handle),
    delete_groups.KEY: Api("DeleteGroups", 0, 2, 0, delete_groups.handle),
    elect_leaders.KEY: Api("ElectLeaders", 0, 2, 0, elect_leaders.handle),
    incremental_alter_configs.KEY: Api("IncrementalAlterConfigs", 0, 1, 0, incremental_alter_configs.handle),
    reassignments.ALTER_KEY: Api("AlterPartitionReassignments", 0, 1, 0, reassignments.alter),
    reassignments.LIST_KEY: Api("ListPartitionReassignments", 0, 0, 0, reassignments.list_),
    offset_delete.KEY: Api("OffsetDelete", 0, 0, 0, offset_delete.handle),
    client_quotas.DESCRIBE_KEY: Api("DescribeClientQuotas", 0, 1, 0, client_quotas.describe),
    client_quotas.ALTER_KEY: Api("AlterClientQuotas", 0, 1, 0, client_quotas.alter),
    scram_credentials.DESCRIBE_KEY: Api("DescribeUserScramCredentials", 0, 0, 0, scram_credentials.describe),
    scram_credentials.ALTER_KEY: Api("AlterUserScramCredentials", 0, 0, 0, scram_credentials.alter),
    describe_cluster.KEY: Api("DescribeCluster", 0, 1, 0, describe_cluster.handle),
    describe_producers.KEY: Api("DescribeProducers", 0, 0, 0, describe_producers.handle),
}
"""By API key. Transactions and newer group protocols are absent, so no client tries them."""

BETWEEN_BROKERS: Mapping[int, Api] = {
    TELL_KEY: Api("ReplicaTell", VERSION, VERSION, VERSION, replica_messages.tell),
    POLL_KEY: Api("ReplicaPoll", VERSION, VERSION, VERSION, replica_messages.poll),
    COMPARE_KEY: Api("ReplicaCompare", VERSION, VERSION, VERSION, replica_messages.compare),
    READ_KEY: Api("ReplicaRead", VERSION, VERSION, VERSION, replica_messages.read),
    describe_damage.KEY: Api("DescribeDamage", 0, 0, 0, describe_damage.handle),
    HAND_OVER_KEY: Api("ReplicaHandOver", 0, 0, 0, replica_messages.hand_over),
    HOLDING_KEY: Api("ReplicaHolding", 0, 0, 0, replica_messages.holding),
    RECOVER_KEY: Api("ReplicaRecover", 0, 0, 0, replica_messages.recover),
    describe_recovery.KEY: Api("DescribeRecovery", 0, 0, 0, describe_recovery.handle),
}
"""Of this broker's own protocol: between replicas, DescribeDamage and DescribeRecovery. Not advertised."""

SUPPORTED: Mapping[int, tuple[int, int]] = {key: (api.lowest, api.highest) for key, api in TABLE.items()}
"""By API key: the lowest and highest version that ApiVersions advertises."""
