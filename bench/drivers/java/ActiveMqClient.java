import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * One client process for all runs, so that its JIT is warm. Usage: PORT; then a line for each task on standard input:
 * "produce QUEUE COUNT SIZE TRANSACTION" (0: asynchronous sends, the last one synchronous) and "consume QUEUE COUNT SIZE". Each is
 * answered with one line of JSON.
 */
public class ActiveMqClient {
    private static ActiveMQConnectionFactory factory;

    public static void main(String[] words) throws Exception {
        factory = new ActiveMQConnectionFactory("tcp://127.0.0.1:" + words[0] + "?jms.optimizeAcknowledge=true"
                + "&jms.optimizeAcknowledgeTimeOut=300&jms.prefetchPolicy.queuePrefetch=1000&jms.watchTopicAdvisories=false");
        factory.setTrustAllPackages(true);
        System.out.println("ready");
        BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = tasks.readLine()) != null; ) {
            String[] task = line.trim().split(" ");
            long count = Long.parseLong(task[2]);
            int size = Integer.parseInt(task[3]);
            double cpu = cpuSeconds();
            long began = System.nanoTime();
            if (task[0].equals("produce")) {
                produce(task[1], count, size, Integer.parseInt(task[4]));
            } else {
                consume(task[1], count, size);
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            System.out.printf("{\"count\": %d, \"seconds\": %.6f, \"client_cpu_s\": %.6f, \"client_thread_s\": 0.0}%n", count, seconds,
                    cpuSeconds() - cpu);
        }
    }

    private static double cpuSeconds() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime() / 1e9;
    }

    private static void produce(String name, long count, int size, int transaction) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.setUseAsyncSend(transaction == 0);
        connection.start();
        Session session = connection.createSession(transaction > 0, transaction > 0 ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        byte[] payload = new byte[size];
        Arrays.fill(payload, (byte) 'm');
        for (long i = 1; i <= count; i++) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(payload);
            if (i == count) connection.setUseAsyncSend(false);
            producer.send(message);
            if (transaction > 0 && (i % transaction == 0 || i == count)) session.commit();
        }
        connection.close();
    }

    private static void consume(String name, long count, int size) throws Exception {
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        MessageConsumer consumer = session.createConsumer(queue);
        for (long got = 0; got < count; got++) {
            BytesMessage message = (BytesMessage) consumer.receive(60000);
            if (message == null || message.getBodyLength() != size) throw new IllegalStateException("message " + got + " of " + count + ": " + message);
        }
        consumer.close();
        connection.close();
    }
}
