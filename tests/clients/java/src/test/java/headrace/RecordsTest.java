package headrace;

import static headrace.Clients.consumer;
import static headrace.Clients.producer;
import static headrace.Clients.read;
import static headrace.Clients.topic;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.record.TimestampType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What is written is what is read, wherever the reading begins. */
class RecordsTest {
    private static final long TIME_MS = 1_700_000_000_000L;

    @Test
    void aTopicWithAppendTimeGivesTheBrokersTime() throws Exception {
        String topic = topic(1, Map.of("message.timestamp.type", "LogAppendTime"));
        long begunMs = System.currentTimeMillis();
        RecordMetadata told;
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", "lz4"))) {
            told = producer.send(record(topic, 0, "key", "value")).get();
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(List.of(partition));
            ConsumerRecord<byte[], byte[]> got = read(consumer, 1).get(0);
            assertEquals(TimestampType.LOG_APPEND_TIME, got.timestampType());
            assertEquals(told.timestamp(), got.timestamp());
            assertTrue(begunMs <= got.timestamp() && got.timestamp() <= System.currentTimeMillis());
            assertEquals(told.offset(), consumer.offsetsForTimes(Map.of(partition, TIME_MS)).get(partition).offset());
        }
    }

    static Stream<Arguments> codecsAndIdempotence() {
        return Stream.of("none", "gzip", "snappy", "lz4", "zstd")
                .flatMap(codec -> Stream.of(true, false).map(idempotent -> Arguments.of(codec, idempotent)));
    }

    @ParameterizedTest
    @MethodSource("codecsAndIdempotence")
    void everyKindOfRecordComesBackAsItWas(String codec, boolean idempotent) throws Exception {
        String topic = topic(1);
        List<ProducerRecord<byte[], byte[]>> sent = List.of(
                record(topic, 0, "key", "value"),
                record(topic, 1, null, "no key"),
                record(topic, 2, "no value", null),
                record(topic, 3, "", ""),
                record(topic, 4, "large", "x".repeat(900_000)));
        sent.get(1).headers().add("a", "1".getBytes()).add("a", "2".getBytes()).add("null", null).add("empty", new byte[0]);
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                producer(Map.of("compression.type", codec, "enable.idempotence", idempotent))) {
            List<Future<RecordMetadata>> answers = sent.stream().map(producer::send).toList();
            for (Future<RecordMetadata> answer : answers) {
                offsets.add(answer.get().offset());
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("check.crcs", true))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            List<ConsumerRecord<byte[], byte[]>> got = read(consumer, sent.size());
            assertEquals(offsets, got.stream().map(ConsumerRecord::offset).toList());
            for (int i = 0; i < sent.size(); i++) {
                assertArrayEquals(sent.get(i).key(), got.get(i).key());
                assertArrayEquals(sent.get(i).value(), got.get(i).value());
                assertEquals(TIME_MS + i, got.get(i).timestamp());
                assertArrayEquals(sent.get(i).headers().toArray(), got.get(i).headers().toArray());
            }
        }
    }

    @Test
    void manyRecordsKeepTheirOrderInEveryPartition() throws Exception {
        String topic = topic(3);
        int count = 30_000;
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("linger.ms", 5))) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, i % 3, null, Integer.toString(i).getBytes()));
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(IntStream.range(0, 3).mapToObj(p -> new TopicPartition(topic, p)).toList());
            int[] next = {0, 1, 2};
            for (ConsumerRecord<byte[], byte[]> record : read(consumer, count)) {
                assertEquals(next[record.partition()], Integer.parseInt(new String(record.value())));
                next[record.partition()] += 3;
            }
        }
    }

    @ParameterizedTest
    @MethodSource("acks")
    void everyKindOfAcknowledgementDelivers(String acks) throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("acks", acks, "enable.idempotence", false))) {
            for (int i = 0; i < 100; i++) {
                producer.send(new ProducerRecord<>(topic, Integer.toString(i).getBytes()));
            }
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            List<String> got = read(consumer, 100).stream().map(record -> new String(record.value())).toList();
            assertEquals(IntStream.range(0, 100).mapToObj(Integer::toString).toList(), got);
        }
    }

    static Stream<String> acks() {
        return Stream.of("0", "1", "all");
    }

    @Test
    void seeksToBeginEndTimeMiddleOfABatchAndTheGapBetweenBatches() throws Exception {
        String topic = topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        List<Long> offsets = new ArrayList<>();
        for (int batch = 0; batch < 2; batch++) {
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("linger.ms", 500))) {
                List<Future<RecordMetadata>> answers = new ArrayList<>();
                for (int i = 0; i < 5; i++) {
                    answers.add(producer.send(record(topic, 1_000L * (5 * batch + i), null, "" + (5 * batch + i))));
                }
                producer.flush();
                for (Future<RecordMetadata> answer : answers) {
                    offsets.add(answer.get().offset());
                }
            }
        }
        assertEquals(offsets.get(0) + 4, offsets.get(4), "one batch of five");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            assertEquals(10, read(consumer, 10).size());
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            assertEquals(0L, consumer.beginningOffsets(List.of(partition)).get(partition));
            assertEquals(offsets.get(9) + 1, end);
            for (long offset : new long[] {offsets.get(3), offsets.get(4) + 1, offsets.get(5) - 1, offsets.get(7)}) {
                consumer.seek(partition, offset);
                long expected = offsets.stream().filter(one -> one >= offset).count();
                List<ConsumerRecord<byte[], byte[]>> got = read(consumer, (int) expected);
                assertEquals(offsets.stream().filter(one -> one >= offset).toList(), got.stream().map(ConsumerRecord::offset).toList());
            }
            consumer.seekToEnd(List.of(partition));
            assertEquals(end, consumer.position(partition));
            assertTrue(consumer.poll(Duration.ofMillis(300)).isEmpty());
            assertEquals(offsets.get(7), consumer.offsetsForTimes(Map.of(partition, TIME_MS + 6_001)).get(partition).offset());
            assertNull(consumer.offsetsForTimes(Map.of(partition, TIME_MS + 9_001)).get(partition));
        }
    }

    @Test
    void anOffsetBeyondTheEndIsOutOfRange() throws Exception {
        TopicPartition partition = new TopicPartition(topic(1), 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("auto.offset.reset", "none"))) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 1_000_000);
            assertThrows(OffsetOutOfRangeException.class, () -> {
                Instant end = Instant.now().plus(Clients.DEADLINE);
                while (Instant.now().isBefore(end)) {
                    consumer.poll(Duration.ofMillis(200));
                }
            });
        }
    }

    @Test
    void readCommittedReadsEverythingAsNothingIsTransactional() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            producer.send(record(topic, 0, null, "x")).get();
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            assertEquals(1, read(consumer, 1).size());
        }
    }

    @Test
    void transactionsAreRefusedClearlyAndNotByTimeout() {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", "refused"))) {
            KafkaException refused = assertThrows(KafkaException.class, producer::initTransactions);
            assertTrue(!(refused instanceof TimeoutException), refused.toString());
        }
    }

    @Test
    void aRecordAboveTheTopicsLimitIsRefusedAndNamed() throws Exception {
        String topic = topic(1, Map.of("max.message.bytes", "1000"));
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            ExecutionException refused =
                    assertThrows(ExecutionException.class, () -> producer.send(record(topic, 0, null, "x".repeat(5_000))).get());
            assertInstanceOf(RecordTooLargeException.class, refused.getCause());
            producer.send(record(topic, 0, null, "small")).get();
        }
    }

    @Test
    void patternSubscriptionFindsTopics() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            producer.send(record(topic, 0, null, "x")).get();
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", topic))) {
            assertTrue(consumer.listTopics().containsKey(topic));
            consumer.subscribe(java.util.regex.Pattern.compile(topic.substring(0, 10) + ".*"));
            assertEquals(1, read(consumer, 1).size());
            assertEquals(Set.of(topic), consumer.subscription());
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, long afterMs, String key, String value) {
        return new ProducerRecord<>(
                topic, 0, TIME_MS + afterMs, key == null ? null : key.getBytes(), value == null ? null : value.getBytes(), new ArrayList<>());
    }
}
