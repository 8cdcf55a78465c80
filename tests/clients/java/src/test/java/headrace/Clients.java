package headrace;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers, consumers and topics of Apache Kafka's client on the broker under test ({@code -Dbootstrap=host:port}). */
final class Clients {
    static final String BOOTSTRAP = System.getProperty("bootstrap");
    static final Duration DEADLINE = Duration.ofSeconds(30);

    private Clients() {}

    static Properties properties(Map<String, ?> more) {
        Properties all = new Properties();
        all.put("bootstrap.servers", BOOTSTRAP);
        all.putAll(more);
        return all;
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, ?> more) {
        Properties all = properties(Map.of("max.request.size", 2_000_000, "max.block.ms", 15_000));
        all.putAll(more);
        return new KafkaProducer<>(all, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, ?> more) {
        Properties all = properties(Map.of("auto.offset.reset", "earliest", "enable.auto.commit", false));
        all.putAll(more);
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Admin admin() {
        return Admin.create(properties(Map.of("request.timeout.ms", 15_000, "default.api.timeout.ms", 20_000)));
    }

    /** A topic that no other test uses. */
    static String topic(int partitions) throws Exception {
        return topic(partitions, Map.of());
    }

    static String topic(int partitions, Map<String, String> config) throws Exception {
        String name = "java-" + UUID.randomUUID().toString().substring(0, 8);
        try (Admin admin = admin()) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get();
        }
        return name;
    }

    /** Polls until so many records came. */
    static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        eventually(
                () -> {
                    consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                    return records.size() >= count;
                },
                () -> records.size() + " of " + count + " records");
        return records;
    }

    static void eventually(BooleanSupplier condition, java.util.function.Supplier<String> state) {
        Instant end = Instant.now().plus(DEADLINE);
        while (!condition.getAsBoolean()) {
            if (Instant.now().isAfter(end)) {
                throw new AssertionError("not within " + DEADLINE + ": " + state.get());
            }
            Thread.onSpinWait();
        }
    }
}
