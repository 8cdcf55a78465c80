package headrace;

import static headrace.Clients.read;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Logins over TLS ({@code -Dsecured=host:port}, whose sessions last 1.5 s; {@code -Dmtls=host:port}). */
class LoginsTest {
    private static Map<String, Object> trusting(String address, String protocol) {
        return new java.util.HashMap<>(Map.of(
                "bootstrap.servers", System.getProperty(address),
                "security.protocol", protocol,
                "ssl.truststore.type", "PEM",
                "ssl.truststore.location", System.getProperty("ca")));
    }

    private static Map<String, Object> login(String mechanism, String user, String password) {
        Map<String, Object> all = trusting("secured", "SASL_SSL");
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        all.put("sasl.mechanism", mechanism);
        all.put(
                "sasl.jaas.config",
                "org.apache.kafka.common.security." + module + " required username=\"" + user + "\" password=\"" + password + "\";");
        return all;
    }

    private static Properties with(Map<String, Object> login, Map<String, Object> more) {
        Properties all = new Properties();
        all.putAll(login);
        all.putAll(more);
        return all;
    }

    private static void writeAndRead(Map<String, Object> login, String topic, long forMs) throws Exception {
        try (Admin admin = Admin.create(with(login, Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
        }
        int count = 0;
        try (var producer = new KafkaProducer<>(with(login, Map.of()), new ByteArraySerializer(), new ByteArraySerializer())) {
            long end = System.currentTimeMillis() + forMs;
            do {
                producer.send(new ProducerRecord<>(topic, ("value " + count).getBytes())).get();
                count++;
            } while (System.currentTimeMillis() < end);
        }
        Map<String, Object> reading = Map.of("auto.offset.reset", "earliest", "group.id", topic);
        try (var consumer = new KafkaConsumer<>(with(login, reading), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            assertEquals(count, read(consumer, count).size());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
    void aUserWritesAndReads(String mechanism) throws Exception {
        writeAndRead(login(mechanism, "alice", "secret"), "java-" + mechanism, 0);
    }

    @Test
    void aSessionIsRenewedWhileItWrites() throws Exception {
        writeAndRead(login("SCRAM-SHA-512", "alice", "secret"), "java-renewed", 5_000);
    }

    @Test
    void aClientWithACertificateWritesAndReads() throws Exception {
        Map<String, Object> own = trusting("mtls", "SSL");
        own.put("ssl.keystore.type", "PEM");
        own.put("ssl.keystore.location", System.getProperty("keystore"));
        writeAndRead(own, "java-mtls", 0);
    }

    @ParameterizedTest
    @ValueSource(strings = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
    void aWrongPasswordIsRefusedAtOnce(String mechanism) {
        try (Admin admin = Admin.create(with(login(mechanism, "alice", "wrong"), Map.of()))) {
            var why = assertThrows(ExecutionException.class, () -> admin.listTopics().names().get()).getCause();
            assertInstanceOf(SaslAuthenticationException.class, why);
        }
    }

    @Test
    void usersAreMadeAndRemoved() throws Exception {
        try (Admin admin = Admin.create(with(login("SCRAM-SHA-512", "alice", "secret"), Map.of()))) {
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192);
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("java user", info, "of java"))).all().get();
            var made = admin.describeUserScramCredentials(List.of("java user")).description("java user").get();
            assertEquals(List.of(info), made.credentialInfos());
            writeAndRead(login("SCRAM-SHA-256", "java user", "of java"), "java-user", 0);
            writeAndRead(login("PLAIN", "java user", "of java"), "java-user-plain", 0);
            var gone = new UserScramCredentialDeletion("java user", ScramMechanism.SCRAM_SHA_256);
            admin.alterUserScramCredentials(List.of(gone)).all().get();
            assertEquals(false, admin.describeUserScramCredentials().all().get().containsKey("java user"));
        }
    }
}
