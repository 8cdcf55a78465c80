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
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.Test;

/** What administrators do with Kafka's own Admin client. */
class AdminTest {
    @Test
    void topicsAreMadeGrownDescribedAndDeleted() throws Exception {
        String topic = topic(2);
        try (Admin admin = admin()) {
            assertTrue(admin.listTopics().names().get().contains(topic));
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
            Clients.eventually(() -> partitions(admin, topic) == 5, () -> partitions(admin, topic) + " partitions");
            assertInstanceOf(
                    InvalidPartitionsException.class, refused(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all()));
            admin.deleteTopics(List.of(topic)).all().get();
            Clients.eventually(
                    () -> refused(admin.describeTopics(List.of(topic)).allTopicNames()) instanceof UnknownTopicOrPartitionException,
                    () -> "still there");
        }
    }

    @Test
    void whatCannotBeIsRefusedWithItsReason() throws Exception {
        String topic = topic(1);
        try (Admin admin = admin()) {
            assertInstanceOf(TopicExistsException.class, refused(create(admin, topic, 1, 1, Map.of())));
            assertInstanceOf(InvalidTopicException.class, refused(create(admin, "a/b", 1, 1, Map.of())));
            assertInstanceOf(InvalidReplicationFactorException.class, refused(create(admin, topic + "x", 1, 3, Map.of())));
            assertInstanceOf(InvalidPartitionsException.class, refused(create(admin, topic + "x", 0, 1, Map.of())));
            Throwable compact = refused(create(admin, topic + "x", 1, 1, Map.of("cleanup.policy", "compact")));
            assertInstanceOf(InvalidConfigurationException.class, compact);
            assertTrue(compact.getMessage().contains("compact"), compact.getMessage());
            assertInstanceOf(InvalidConfigurationException.class, refused(create(admin, topic + "x", 1, 1, Map.of("no.such", "1"))));
            assertFalse(admin.listTopics().names().get().contains(topic + "x"));
        }
    }

    @Test
    void settingsAreShownChangedAndTakenBack() throws Exception {
        String topic = topic(1, Map.of("retention.ms", "1000000"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = admin()) {
            ConfigEntry retention = settings(admin, resource).get("retention.ms");
            assertEquals("1000000", retention.value());
            assertEquals(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, retention.source());
            assertEquals("delete", settings(admin, resource).get("cleanup.policy").value());
            admin.incrementalAlterConfigs(Map.of(
                            resource,
                            List.of(
                                    new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE),
                                    new AlterConfigOp(new ConfigEntry("segment.bytes", "2000000"), AlterConfigOp.OpType.SET))))
                    .all()
                    .get();
            Clients.eventually(
                    () -> settings(admin, resource).get("segment.bytes").value().equals("2000000"), () -> "segment.bytes unchanged");
            assertTrue(settings(admin, resource).get("retention.ms").source() != ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
            Throwable refused = refused(admin.incrementalAlterConfigs(Map.of(
                            resource, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET))))
                    .all());
            assertInstanceOf(InvalidConfigurationException.class, refused);
        }
    }

    @Test
    void theBrokerDescribesItself() throws Exception {
        try (Admin admin = admin()) {
            var cluster = admin.describeCluster();
            assertEquals(1, cluster.nodes().get().size());
            int id = cluster.nodes().get().iterator().next().id();
            assertEquals(id, cluster.controller().get().id());
            assertFalse(cluster.clusterId().get().isEmpty());
            Config broker = admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "" + id)))
                    .all()
                    .get()
                    .values()
                    .iterator()
                    .next();
            assertFalse(broker.entries().isEmpty());
        }
    }

    @Test
    void recordsAreDeletedUpToAnOffsetAndFoldersTellTheirSize() throws Exception {
        String topic = topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        long[] offsets = new long[10];
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (int i = 0; i < 10; i++) {
                offsets[i] = producer.send(new ProducerRecord<>(topic, 0, null, ("" + i).getBytes())).get().offset();
            }
        }
        try (Admin admin = admin()) {
            var folder = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).values().iterator().next();
            assertTrue(folder.replicaInfos().get(partition).size() > 0);
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(offsets[4]))).all().get();
            assertEquals(
                    offsets[4], admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition).get().offset());
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
                consumer.assign(List.of(partition));
                assertEquals(offsets[4], Clients.read(consumer, 6).get(0).offset());
            }
            assertEquals(
                    offsets[9], admin.listOffsets(Map.of(partition, OffsetSpec.maxTimestamp())).partitionResult(partition).get().offset());
        }
    }

    private static KafkaFuture<Void> create(Admin admin, String topic, int partitions, int replicas, Map<String, String> config) {
        return admin.createTopics(List.of(new NewTopic(topic, partitions, (short) replicas).configs(config))).all();
    }

    private static Throwable refused(KafkaFuture<?> answer) {
        return assertThrows(ExecutionException.class, answer::get).getCause();
    }

    private static int partitions(Admin admin, String topic) {
        try {
            return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    private static Map<String, ConfigEntry> settings(Admin admin, ConfigResource resource) {
        try {
            return admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
                    .collect(java.util.stream.Collectors.toMap(ConfigEntry::name, entry -> entry));
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }
}
