package headrace;

import java.util.Collections;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** A group member in a process of its own, so that it can be killed: prints a line once it has partitions. */
final class Member {
    private Member() {}

    public static void main(String[] words) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = EveryVersionTest.consumer(words[0], words[1], "earliest")) {
            consumer.subscribe(Collections.singleton(words[2]));
            boolean told = false;
            while (true) {
                EveryVersionTest.poll(consumer);
                if (!told && !consumer.assignment().isEmpty()) {
                    System.out.println("assigned");
                    told = true;
                }
            }
        }
    }
}
