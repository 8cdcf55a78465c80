package headrace;

import static headrace.Clients.admin;
import static headrace.Clients.consumer;
import static headrace.Clients.eventually;
import static headrace.Clients.producer;
import static headrace.Clients.topic;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Consumers of one group share its partitions, whoever comes, goes or falls silent. */
class GroupsTest {
    private static final int PARTITIONS = 4;

    @ParameterizedTest
    @ValueSource(classes = {RangeAssignor.class, CooperativeStickyAssignor.class})
    void membersComeAndGoAndEveryPartitionHasOneOwner(Class<?> assignor) throws Exception {
        String topic = topic(PARTITIONS);
        Map<String, Object> config = Map.of("group.id", topic, "partition.assignment.strategy", assignor.getName());
        try (KafkaConsumer<byte[], byte[]> first = consumer(config)) {
            first.subscribe(List.of(topic));
            settle(Map.of(first, 4));
            KafkaConsumer<byte[], byte[]> second = consumer(config);
            second.subscribe(List.of(topic));
            settle(Map.of(first, 2, second, 2));
            second.close();
            settle(Map.of(first, 4));
        }
    }

    @Test
    void theGroupGoesOnWhereItsCommitsAre() throws Exception {
        String topic = topic(1);
        fill(topic, 0, 100);
        List<String> values = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", topic, "max.poll.records", 25))) {
                consumer.subscribe(List.of(topic));
                List<ConsumerRecord<byte[], byte[]>> got = Clients.read(consumer, 25);
                got.forEach(record -> values.add(new String(record.value())));
                consumer.commitSync();
            }
        }
        assertEquals(java.util.stream.IntStream.range(0, 100).mapToObj(Integer::toString).toList(), values);
    }

    @Test
    void committedOffsetsKeepTheirMetadata() throws Exception {
        String topic = topic(2);
        TopicPartition partition = new TopicPartition(topic, 1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(Map.of("group.id", topic))) {
            consumer.assign(List.of(partition));
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(42, "where I was")));
            Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(Set.of(partition, new TopicPartition(topic, 0)));
            assertEquals(new OffsetAndMetadata(42, "where I was"), committed.get(partition));
            assertEquals(null, committed.get(new TopicPartition(topic, 0)));
        }
    }

    @Test
    void aSilentMemberIsEvicted() throws Exception {
        String topic = topic(PARTITIONS);
        Map<String, Object> config = Map.of("group.id", topic, "session.timeout.ms", 6_000, "heartbeat.interval.ms", 500);
        try (KafkaConsumer<byte[], byte[]> living = consumer(config);
                KafkaConsumer<byte[], byte[]> silent = consumer(with(config, "max.poll.interval.ms", 6_000))) {
            living.subscribe(List.of(topic));
            silent.subscribe(List.of(topic));
            settle(Map.of(living, 2, silent, 2));
            settle(Map.of(living, 4)); // the other one is not polled any more
        }
    }

    @Test
    void aStaticMemberReturnsToItsPartitionsWithoutARebalance() throws Exception {
        String topic = topic(PARTITIONS);
        Map<String, Object> config = Map.of("group.id", topic, "session.timeout.ms", 30_000);
        AtomicInteger rebalances = new AtomicInteger();
        try (KafkaConsumer<byte[], byte[]> staying = consumer(with(config, "group.instance.id", "staying"))) {
            staying.subscribe(List.of(topic), counting(rebalances));
            KafkaConsumer<byte[], byte[]> returning = consumer(with(config, "group.instance.id", "returning"));
            returning.subscribe(List.of(topic));
            settle(Map.of(staying, 2, returning, 2));
            Set<TopicPartition> before = returning.assignment();
            int soFar = rebalances.get();
            returning.close();
            try (KafkaConsumer<byte[], byte[]> again = consumer(with(config, "group.instance.id", "returning"))) {
                again.subscribe(List.of(topic));
                settle(Map.of(staying, 2, again, 2));
                assertEquals(before, again.assignment());
                assertEquals(soFar, rebalances.get());
            }
        }
    }

    @Test
    void theElderOfTwoStaticMembersOfOneNameIsFenced() throws Exception {
        String topic = topic(1);
        Map<String, Object> config = Map.of("group.id", topic, "group.instance.id", "same", "heartbeat.interval.ms", 300);
        try (KafkaConsumer<byte[], byte[]> elder = consumer(config);
                KafkaConsumer<byte[], byte[]> younger = consumer(config)) {
            elder.subscribe(List.of(topic));
            settle(Map.of(elder, 1));
            younger.subscribe(List.of(topic));
            settle(Map.of(younger, 1));
            assertThrows(FencedInstanceIdException.class, () -> eventually(() -> {
                elder.poll(Duration.ofMillis(100));
                return false;
            }, () -> "never fenced"));
        }
    }

    @Test
    void groupsAreListedDescribedAndDeleted() throws Exception {
        String topic = topic(PARTITIONS);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (Admin admin = admin()) {
            try (KafkaConsumer<byte[], byte[]> member = consumer(Map.of("group.id", topic, "client.id", "listed"))) {
                member.subscribe(List.of(topic));
                settle(Map.of(member, PARTITIONS));
                var described = admin.describeConsumerGroups(List.of(topic)).all().get().get(topic);
                assertEquals(GroupState.STABLE, described.groupState());
                var only = described.members().iterator().next();
                assertEquals("listed", only.clientId());
                assertEquals(PARTITIONS, only.assignment().topicPartitions().size());
                member.commitSync(Map.of(partition, new OffsetAndMetadata(7)));
                assertThrows(Exception.class, () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
            }
            eventually(() -> state(admin, topic) == GroupState.EMPTY, () -> "still " + state(admin, topic));
            assertEquals(
                    Set.of(topic),
                    new HashSet<>(admin.listGroups().all().get().stream().map(GroupListing::groupId).filter(topic::equals).toList()));
            TopicPartition kept = new TopicPartition(topic, 1); // a group without members and offsets is none, here as in Kafka
            admin.alterConsumerGroupOffsets(topic, Map.of(partition, new OffsetAndMetadata(9), kept, new OffsetAndMetadata(1)))
                    .all()
                    .get();
            assertEquals(9, admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().get(partition).offset());
            admin.deleteConsumerGroupOffsets(topic, Set.of(partition)).all().get();
            assertEquals(null, admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().get(partition));
            admin.deleteConsumerGroups(List.of(topic)).all().get();
            assertEquals(List.of(), admin.listGroups().all().get().stream().filter(one -> one.groupId().equals(topic)).toList());
        }
    }

    private static GroupState state(Admin admin, String group) {
        try {
            return admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    /** Polls all until each has so many partitions. */
    private static void settle(Map<KafkaConsumer<byte[], byte[]>, Integer> wanted) {
        eventually(
                () -> {
                    wanted.keySet().forEach(consumer -> consumer.poll(Duration.ofMillis(50)));
                    return wanted.entrySet().stream().allMatch(entry -> entry.getKey().assignment().size() == entry.getValue());
                },
                () -> wanted.keySet().stream().map(consumer -> consumer.assignment().toString()).toList().toString());
    }

    private static ConsumerRebalanceListener counting(AtomicInteger rebalances) {
        return new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(java.util.Collection<TopicPartition> partitions) {
                rebalances.incrementAndGet();
            }

            @Override
            public void onPartitionsAssigned(java.util.Collection<TopicPartition> partitions) {}
        };
    }

    private static Map<String, Object> with(Map<String, Object> config, String name, Object value) {
        Map<String, Object> more = new HashMap<>(config);
        more.put(name, value);
        return more;
    }

    private static void fill(String topic, int partition, int count) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, partition, null, Integer.toString(i).getBytes()));
            }
        }
    }
}
