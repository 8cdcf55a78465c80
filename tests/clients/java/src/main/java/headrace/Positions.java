package headrace;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Apache Kafka's consumer as a reader of `tests/clients/positions`: a command a line, answered in lines. */
public final class Positions {
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final PrintStream OUT =
            new PrintStream(new java.io.BufferedOutputStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), 1 << 16), false);
    private static String bootstrap;

    private Positions() {}

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                carryOut(line.split(" "));
                say("done");
            } catch (Exception failure) {
                say("failed " + failure.toString().replace('\n', ' '));
            }
        }
    }

    private static void carryOut(String[] words) {
        TopicPartition partition = new TopicPartition(words[1], 0);
        switch (words[0]) {
            case "ends" -> ends(partition);
            case "read" -> read(partition, Long.parseLong(words[2]), Long.parseLong(words[3]));
            case "group" -> group(partition, words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]));
            case "idle" -> idle(partition, Long.parseLong(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4]));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void ends(TopicPartition partition) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            say("begin " + consumer.beginningOffsets(List.of(partition)).get(partition));
            say("end " + consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private static void read(TopicPartition partition, long from, long to) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            begin(consumer, partition, from);
            until(consumer, partition, Integer.MAX_VALUE, to);
            say("position " + consumer.position(partition));
        }
    }

    private static void idle(TopicPartition partition, long from, long to, long forMs) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            begin(consumer, partition, from);
            until(consumer, partition, Integer.MAX_VALUE, to);
            say("idle");
            long end = System.nanoTime() + forMs * 1_000_000;
            while (System.nanoTime() < end) {
                consumer.poll(Duration.ofMillis(100)).forEach(Positions::tell);
            }
            say("over");
        }
    }

    private static void group(TopicPartition partition, String group, int most, long to) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", group, "max.poll.records", Math.max(1, Math.min(500, most))))) {
            consumer.subscribe(List.of(partition.topic()));
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            int count = 0;
            while (consumer.assignment().isEmpty() && System.nanoTime() < deadline) {
                count += told(consumer.poll(Duration.ofMillis(50)));
            }
            count += until(consumer, partition, most - count, to);
            long position = consumer.position(partition);
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(position)));
            say("committed " + consumer.committed(java.util.Set.of(partition)).get(partition).offset());
            consumer.currentLag(partition).ifPresent(lag -> say("lag " + lag));
        }
    }

    private static void begin(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long from) {
        consumer.assign(List.of(partition));
        consumer.seek(partition, from);
    }

    private static int until(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, int most, long to) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        int count = 0;
        while (count < most && consumer.position(partition) < to) {
            count += told(consumer.poll(Duration.ofMillis(100)));
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(count + " records, then at " + consumer.position(partition) + " on the way to " + to);
            }
        }
        return count;
    }

    private static int told(Iterable<ConsumerRecord<byte[], byte[]>> records) {
        int count = 0;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            tell(record);
            count++;
        }
        return count;
    }

    private static void tell(ConsumerRecord<byte[], byte[]> record) {
        OUT.println("record " + record.offset() + " " + new String(record.value(), StandardCharsets.US_ASCII));
    }

    private static void say(String line) {
        OUT.println(line);
        OUT.flush();
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Map<String, ?> more) {
        Properties all = new Properties();
        all.putAll(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "none", "enable.auto.commit", false));
        if (more.containsKey("group.id")) {
            all.put("auto.offset.reset", "earliest");
        }
        all.putAll(more);
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
