import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Sends a unique value to each partition in turn, idempotently with acks=all, until "end" or the end of standard input.
 * Usage: BOOTSTRAP TOPIC PARTITIONS NAME PACE_MS; "pause" and "resume" on standard input. Standard output has a line for each value
 * before it is sent (> VALUE) and when it is answered (+ VALUE PARTITION OFFSET, or - VALUE ERROR), and "paused" when all values are
 * answered.
 */
public class UniqueValues {
    private static final PrintStream OUT =
            new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
    private static volatile boolean isOver = false;
    private static volatile boolean isPaused = false;

    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("linger.ms", "2");
        settings.put("delivery.timeout.ms", "900000");
        settings.put("max.block.ms", "120000");
        settings.put("request.timeout.ms", "10000");
        settings.put("retry.backoff.ms", "50");
        settings.put("reconnect.backoff.max.ms", "500");
        Thread orders = new Thread(UniqueValues::takeOrders);
        orders.setDaemon(true);
        orders.start();
        int partitions = Integer.parseInt(words[2]);
        ByteArraySerializer asIs = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, asIs, asIs)) {
            boolean hasToldPause = false;
            for (long number = 0; !isOver; ) {
                if (isPaused) {
                    if (!hasToldPause) {
                        producer.flush();
                        tell("paused");
                        hasToldPause = true;
                    }
                } else {
                    hasToldPause = false;
                    for (int partition = 0; partition < partitions; partition++) {
                        send(producer, words[1], partition, words[3] + "." + partition + "." + number);
                    }
                    number++;
                }
                OUT.flush();
                Thread.sleep(Long.parseLong(words[4]));
            }
        }
        OUT.flush();
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, int partition, String value) {
        tell("> " + value);
        try {
            byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>(topic, partition, null, bytes), (where, error) -> tell(error == null
                    ? "+ " + value + " " + where.partition() + " " + where.offset()
                    : "- " + value + " " + error));
        } catch (RuntimeException error) {
            tell("- " + value + " " + error);
        }
    }

    private static void tell(String line) {
        synchronized (OUT) {
            OUT.print(line + "\n");
            if (line.startsWith("paused")) OUT.flush();
        }
    }

    private static void takeOrders() {
        try (BufferedReader orders = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line; (line = orders.readLine()) != null && !line.equals("end"); ) isPaused = line.equals("pause");
        } catch (java.io.IOException error) {
            // As the end of the input.
        }
        isOver = true;
    }
}
