package headrace;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What every version of the client has in common; only calls that are in all of them, {@code poll} by its name. */
class EveryVersionTest {
    private static final String BOOTSTRAP = System.getProperty("bootstrap");
    private static final int PARTITIONS = 3;

    private final String topic = "versions-" + UUID.randomUUID().toString().substring(0, 8);

    @ParameterizedTest
    @CsvSource({"none, false", "none, true", "gzip, true", "snappy, false", "lz4, true", "zstd, false"})
    void recordsComeBackAsTheyWere(String codec, boolean idempotent) throws Exception {
        if (codec.equals("zstd") && !knowsZstd()) {
            assertThrows(KafkaException.class, () -> producer(Map.of("compression.type", codec)));
            return;
        }
        create(1);
        byte[] large = new byte[900_000];
        new Random(7).nextBytes(large);
        List<byte[]> keys = new ArrayList<>();
        List<byte[]> values = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec, "enable.idempotence", "" + idempotent))) {
            for (int i = 0; i < 200; i++) {
                keys.add(i % 2 == 0 ? null : ("k" + i).getBytes());
                values.add(i == 7 ? null : i == 100 ? large : new byte[i * 3]);
            }
            send(producer, keys, values);
        }
        List<ConsumerRecord<byte[], byte[]>> read = readAll(200);
        for (int i = 0; i < 200; i++) {
            assertArrayEquals(keys.get(i), read.get(i).key());
            assertArrayEquals(values.get(i), read.get(i).value());
            assertEquals("1", new String(read.get(i).headers().lastHeader("h").value()));
        }
    }

    @Test
    void theGroupGoesOnFromItsCommitAndAfterTheDeathOfAMember() throws Exception {
        create(PARTITIONS);
        fill(300);
        Set<String> seen = new HashSet<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(BOOTSTRAP, topic, "earliest")) {
            consumer.subscribe(Set.of(topic));
            eventually(() -> { poll(consumer).forEach(record -> assertTrue(seen.add(place(record)))); return seen.size() >= 100; });
            consumer.commitSync();
        }
        Process victim = new ProcessBuilder(
                        ProcessHandle.current().info().command().orElse("java"),
                        "-cp", System.getProperty("java.class.path"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                        Member.class.getName(), BOOTSTRAP, topic, topic)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(BOOTSTRAP, topic, "none")) {
            assertEquals("assigned", victim.inputReader().readLine());
            consumer.subscribe(Set.of(topic));
            eventually(() -> { poll(consumer); return consumer.assignment().size() % PARTITIONS != 0; });
            victim.destroyForcibly().waitFor();
            eventually(() -> { poll(consumer); return consumer.assignment().size() == PARTITIONS; });
        } finally {
            victim.destroyForcibly();
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(BOOTSTRAP, topic, "none")) {
            consumer.subscribe(Set.of(topic));
            eventually(() -> { poll(consumer).forEach(record -> assertTrue(seen.add(place(record)))); return seen.size() == 300; });
        }
    }

    @Test
    void positionsAreSoughtByOffsetEndAndTime() throws Exception {
        create(1);
        fill(50);
        List<ConsumerRecord<byte[], byte[]>> all = readAll(50);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(BOOTSTRAP, topic, "none")) {
            consumer.assign(Set.of(partition));
            consumer.seek(partition, all.get(20).offset());
            assertEquals(all.get(20).offset(), read(consumer, 1).get(0).offset());
            consumer.seek(partition, all.get(49).offset());
            assertEquals(1, read(consumer, 1).size());
            assertEquals(consumer.endOffsets(Set.of(partition)).get(partition), consumer.position(partition));
            consumer.seekToBeginning(Set.of(partition));
            assertEquals(0, consumer.position(partition));
            consumer.seekToEnd(Set.of(partition));
            assertEquals(consumer.endOffsets(Set.of(partition)).get(partition), consumer.position(partition));
            assertEquals(all.get(0).offset(), consumer.offsetsForTimes(Map.of(partition, 1L)).get(partition).offset());
            Map<TopicPartition, ?> later = consumer.offsetsForTimes(Map.of(partition, Long.MAX_VALUE));
            assertTrue(later.get(partition) == null);
        }
    }

    @Test
    void topicsAreAdministered() throws Exception {
        create(2);
        try (AdminClient admin = AdminClient.create(properties(Map.of()))) {
            assertTrue(admin.listTopics().names().get().contains(topic));
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Config config = admin.describeConfigs(Set.of(resource)).all().get().get(resource);
            assertEquals("5000000", config.get("retention.ms").value());
            assertEquals(1, admin.describeCluster().nodes().get().size());
            NewTopic again = new NewTopic(topic, 1, (short) 1);
            assertCause(TopicExistsException.class, () -> admin.createTopics(Set.of(again)).all().get());
            NewTopic compacted = new NewTopic(topic + "-c", 1, (short) 1).configs(Map.of("cleanup.policy", "compact"));
            assertCause(InvalidConfigurationException.class, () -> admin.createTopics(Set.of(compacted)).all().get());
            admin.deleteTopics(Set.of(topic)).all().get();
            assertFalse(admin.listTopics().names().get().contains(topic));
        }
    }

    @Test
    void transactionsAreRefused() {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", "t", "enable.idempotence", "true"))) {
            KafkaException refused = assertThrows(KafkaException.class, producer::initTransactions);
            assertFalse(refused instanceof org.apache.kafka.common.errors.TimeoutException, refused.toString());
        }
    }

    private static boolean knowsZstd() {
        try {
            Class.forName("com.github.luben.zstd.Zstd");
            return true;
        } catch (ClassNotFoundException older) {
            return false;
        }
    }

    private static String place(ConsumerRecord<byte[], byte[]> record) {
        return record.partition() + ":" + record.offset();
    }

    private void create(int partitions) throws Exception {
        try (AdminClient admin = AdminClient.create(properties(Map.of()))) {
            NewTopic made = new NewTopic(topic, partitions, (short) 1).configs(Map.of("retention.ms", "5000000"));
            admin.createTopics(Set.of(made)).all().get();
        }
    }

    private void fill(int count) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            List<byte[]> all = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                all.add(("value" + i).getBytes());
            }
            send(producer, all, all);
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, List<byte[]> keys, List<byte[]> values) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < keys.size(); i++) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, keys.get(i), values.get(i));
            record.headers().add("h", "1".getBytes());
            sent.add(producer.send(record));
        }
        for (Future<RecordMetadata> one : sent) {
            one.get(30, TimeUnit.SECONDS);
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> readAll(int count) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(BOOTSTRAP, topic + "-all", "earliest")) {
            consumer.subscribe(Set.of(topic));
            List<ConsumerRecord<byte[], byte[]>> all = read(consumer, count);
            assertEquals(count, all.size());
            return all;
        }
    }

    private static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> all = new ArrayList<>();
        eventually(() -> { poll(consumer).forEach(all::add); return all.size() >= count; });
        return all;
    }

    /** {@code poll(Duration)} since 2.0, {@code poll(long)} until 3.9. */
    @SuppressWarnings("unchecked")
    static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            try {
                return (ConsumerRecords<byte[], byte[]>)
                        Consumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(200));
            } catch (NoSuchMethodException older) {
                return (ConsumerRecords<byte[], byte[]>) Consumer.class.getMethod("poll", long.class).invoke(consumer, 200L);
            }
        } catch (ReflectiveOperationException failed) {
            throw new AssertionError(failed.getCause() == null ? failed : failed.getCause());
        }
    }

    static Properties properties(Map<String, String> more) {
        Properties all = new Properties();
        all.put("bootstrap.servers", BOOTSTRAP);
        all.putAll(more);
        return all;
    }

    static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String group, String reset) {
        Map<String, String> config = new LinkedHashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group));
        config.putAll(Map.of("auto.offset.reset", reset, "enable.auto.commit", "false"));
        config.putAll(Map.of("session.timeout.ms", "6000", "heartbeat.interval.ms", "500"));
        Properties all = new Properties();
        all.putAll(config);
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        Properties all = properties(Map.of("max.request.size", "1900000", "max.block.ms", "15000", "acks", "all"));
        all.putAll(more);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static void assertCause(Class<?> expected, org.junit.jupiter.api.function.Executable call) {
        assertEquals(expected, assertThrows(ExecutionException.class, call).getCause().getClass());
    }

    private static void eventually(BooleanSupplier condition) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, "not within 30 s");
        }
    }
}
