package headrace;

import static headrace.Clients.admin;
import static headrace.Clients.consumer;
import static headrace.Clients.producer;
import static headrace.Clients.topic;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.LogDirNotFoundException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * The calls that kafbat UI and AKHQ make with Kafka's Admin client: docs/BROKER.md lists them. Each is answered, or refused with an
 * error that the console expects or shows.
 */
class ConsolesTest {
    private String topic;
    private TopicPartition partition;

    @BeforeEach
    void aTopicWithTenRecordsAndAGroupThatReadThem() throws Exception {
        topic = topic(2);
        partition = new TopicPartition(topic, 0);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (int i = 0; i < 10; i++) {
                producer.send(new ProducerRecord<>(topic, 0, null, ("" + i).getBytes())).get();
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", topic))) {
            consumer.assign(List.of(partition));
            Clients.read(consumer, 10);
            consumer.commitSync();
        }
    }

    @Test
    void theClusterAndItsBrokers() throws Exception {
        try (Admin admin = admin()) {
            for (boolean operations : new boolean[] {false, true}) {
                var cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(operations));
                Node controller = cluster.controller().get();
                assertEquals(List.of(controller), List.copyOf(cluster.nodes().get()));
                assertFalse(cluster.clusterId().get().isEmpty());
                cluster.authorizedOperations().get();
            }
            int id = admin.describeCluster().controller().get().id();
            var broker = new ConfigResource(ConfigResource.Type.BROKER, "" + id);
            assertFalse(admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().isEmpty());
            var folders = admin.describeLogDirs(List.of(id)).allDescriptions().get().get(id);
            assertTrue(folders.values().iterator().next().replicaInfos().get(partition).size() > 0);
            var change = new AlterConfigOp(new ConfigEntry("num.partitions", "3"), AlterConfigOp.OpType.SET);
            assertTrue(refused(admin.incrementalAlterConfigs(Map.of(broker, List.of(change))).all()).getMessage().contains("restart"));
        }
    }

    @Test
    void topicsAndTheirSettings() throws Exception {
        try (Admin admin = admin()) {
            var all = new ListTopicsOptions().listInternal(true);
            assertTrue(admin.listTopics(all).names().get().contains(topic));
            assertTrue(admin.listTopics(all).listings().get().stream().anyMatch(one -> one.name().equals(topic)));
            assertEquals(2, admin.describeTopics(List.of(topic)).topicNameValues().get(topic).get().partitions().size());
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            var entries = admin.describeConfigs(List.of(resource), options).values().get(resource).get().entries();
            assertTrue(entries.stream().allMatch(one -> !one.documentation().isEmpty()));
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "5000000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            String made = topic + "-made";
            var fresh = new NewTopic(made, Optional.of(1), Optional.empty()).configs(Map.of("retention.ms", "1000000"));
            admin.createTopics(List.of(fresh)).all().get();
            admin.createPartitions(Map.of(made, NewPartitions.increaseTo(2))).all().get();
            admin.deleteTopics(List.of(made)).all().get();
        }
    }

    @Test
    void offsetsRecordsAndProducers() throws Exception {
        try (Admin admin = admin()) {
            for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.forTimestamp(1L))) {
                assertTrue(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset() >= 0);
            }
            long end = admin.listOffsets(Map.of(partition, OffsetSpec.latest())).partitionResult(partition).get().offset();
            var producers = admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers();
            assertEquals(List.of(9), producers.stream().map(one -> one.lastSequence()).toList());
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(end))).all().get();
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
                assertEquals(end, consumer.beginningOffsets(List.of(partition)).get(partition));
                assertEquals(end, consumer.endOffsets(List.of(partition)).get(partition));
            }
        }
    }

    @Test
    @SuppressWarnings("deprecation") // the consoles call it
    void groupsAndTheirOffsets() throws Exception {
        try (Admin admin = admin()) {
            assertTrue(admin.listConsumerGroups().all().get().stream().anyMatch(one -> one.groupId().equals(topic)));
            assertTrue(admin.describeConsumerGroups(List.of(topic)).all().get().get(topic).members().isEmpty());
            var spec = Map.of(topic, new ListConsumerGroupOffsetsSpec());
            assertEquals(java.util.Set.of(partition), admin.listConsumerGroupOffsets(spec).all().get().get(topic).keySet());
            assertFalse(admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().isEmpty());
            admin.alterConsumerGroupOffsets(topic, Map.of(partition, new OffsetAndMetadata(0))).all().get();
            admin.deleteConsumerGroupOffsets(topic, java.util.Set.of(partition)).all().get();
            admin.alterConsumerGroupOffsets(topic, Map.of(partition, new OffsetAndMetadata(0))).all().get();
            admin.deleteConsumerGroups(List.of(topic)).all().get();
        }
    }

    @Test
    void accessListsQuotasAndUsers() throws Exception {
        try (Admin admin = admin()) {
            assertInstanceOf(SecurityDisabledException.class, refused(admin.describeAcls(AclBindingFilter.ANY).values()));
            assertInstanceOf(SecurityDisabledException.class, refused(admin.deleteAcls(List.of(AclBindingFilter.ANY)).all()));
            assertEquals(Map.of(), admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
            var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "ann"));
            admin.alterClientQuotas(List.of(quota(entity, "producer_byte_rate", 1000.0))).all().get();
            var all = ClientQuotaFilter.all();
            assertEquals(Map.of(entity, Map.of("producer_byte_rate", 1000.0)), admin.describeClientQuotas(all).entities().get());
            admin.alterClientQuotas(List.of(quota(entity, "producer_byte_rate", null))).all().get();
            assertEquals(Map.of(), admin.describeClientQuotas(all).entities().get());
            Throwable why = refused(admin.alterClientQuotas(List.of(quota(entity, "controller_mutation_rate", 1.0))).all());
            assertInstanceOf(InvalidRequestException.class, why);
            assertTrue(why.getMessage().contains("not served here"), why.getMessage());
            assertEquals(Map.of(), admin.describeUserScramCredentials().all().get());
        }
    }

    private static ClientQuotaAlteration quota(ClientQuotaEntity entity, String key, Double value) {
        return new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(key, value)));
    }

    @Test
    void replicas() throws Exception {
        try (Admin admin = admin()) {
            int id = admin.describeCluster().controller().get().id();
            assertEquals(Map.of(), admin.listPartitionReassignments().reassignments().get());
            var here = Optional.of(new NewPartitionReassignment(List.of(id)));
            admin.alterPartitionReassignments(Map.of(partition, here)).all().get();
            var elsewhere = Optional.of(new NewPartitionReassignment(List.of(id + 1)));
            Throwable why = refused(admin.alterPartitionReassignments(Map.of(partition, elsewhere)).all());
            assertInstanceOf(InvalidReplicaAssignmentException.class, why);
            assertTrue(why.getMessage().contains("are not there"), why.getMessage());
            assertInstanceOf(
                    NoReassignmentInProgressException.class,
                    refused(admin.alterPartitionReassignments(Map.of(partition, Optional.empty())).all()));
            var replica = new TopicPartitionReplica(topic, 0, id);
            String folder = admin.describeLogDirs(List.of(id)).allDescriptions().get().get(id).keySet().iterator().next();
            admin.alterReplicaLogDirs(Map.of(replica, folder)).all().get();
            assertInstanceOf(
                    LogDirNotFoundException.class, refused(admin.alterReplicaLogDirs(Map.of(replica, "/elsewhere")).all()));
            assertEquals(Map.of(), admin.electLeaders(ElectionType.PREFERRED, null).partitions().get());
        }
    }

    private static Throwable refused(KafkaFuture<?> answer) {
        return assertThrows(ExecutionException.class, answer::get).getCause();
    }
}
