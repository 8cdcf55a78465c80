/* Send PER_S messages of SIZE bytes a second for SECONDS and read them back in the same process: one clock for both ends.
 *
 * usage: rdkafka_latency TOPIC PER_S SECONDS SIZE name=value...
 * A tick each millisecond sends its share with linger.ms=0; each message carries its own time. The first second warms up and is not
 * counted. The time of a message is the one it was due at, so a stalled producer does not hide its stall. The reader takes one message at a
 * time: a call for a batch of messages returns when the batch is full or its time is over, and adds half a millisecond. */
#include <pthread.h>
#include <sys/prctl.h>

#include "driver.h"
#include "rdkafka_abi.h"

static const char *topic;
static long long wanted, warm, got;
static double *took_ms;
static rd_kafka_t *consumer;

static void *consume(void *unused) {
    (void)unused;
    double deadline = now_s() + 150;
    while (got < wanted + warm) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 100);
        double now = now_s(), sent;
        if (now > deadline) fail("only %lld of %lld came", got, wanted + warm);
        if (!message) continue;
        if (message->err) fail("consume: %s", rd_kafka_err2str(message->err));
        memcpy(&sent, message->payload, sizeof sent);
        if (got++ >= warm) took_ms[got - warm - 1] = (now - sent) * 1e3;
        rd_kafka_message_destroy(message);
    }
    return NULL;
}

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static double percentile(double part) {
    long long at = (long long)(part * (double)wanted);
    return took_ms[at < wanted ? at : wanted - 1];
}

int main(int count, char **words) {
    if (count < 6) fail("usage: %s TOPIC PER_S SECONDS SIZE name=value...", words[0]);
    topic = words[1];
    long long per_s = atoll(words[2]);
    size_t size = (size_t)atol(words[4]);
    warm = per_s, wanted = per_s * atoll(words[3]);
    took_ms = malloc((size_t)wanted * sizeof *took_ms);
    char error[512], more[256];
    rd_kafka_conf_t *conf = conf_from_words(words + 5, count - 5);
    char *producing[] = {strdup("linger.ms=0"), strdup("acks=1"), strdup("socket.nagle.disable=true")};
    for (int i = 0; i < 3; i++) {
        char *equals = strchr(producing[i], '=');
        *equals = 0;
        if (rd_kafka_conf_set(conf, producing[i], equals + 1, error, sizeof error)) fail("%s", error);
    }
    rd_kafka_t *producer = rd_kafka_new(PRODUCER, conf, error, sizeof error);
    if (!producer) fail("%s", error);
    conf = conf_from_words(words + 5, count - 5);
    rd_kafka_conf_set(conf, "group.id", "bench", error, sizeof error);
    rd_kafka_conf_set(conf, "enable.auto.commit", "false", error, sizeof error);
    rd_kafka_conf_set(conf, "socket.nagle.disable", "true", error, sizeof error);
    consumer = rd_kafka_new(CONSUMER, conf, error, sizeof error);
    if (!consumer) fail("%s", error);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(producer, topic, NULL);
    wait_for_partition(producer, topic);
    wait_for_partition(consumer, topic);
    rd_kafka_topic_partition_list_t *from = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(from, topic, 0)->offset = -2;
    if (rd_kafka_assign(consumer, from)) fail("assign");
    char *payload = malloc(size);
    memset(payload, 'm', size);
    pthread_t reader;
    pthread_create(&reader, NULL, consume, NULL);
    wait_for_go();

    prctl(PR_SET_TIMERSLACK, 1UL); /* else the driver's own ticks may be 50 us late */
    struct timespec tick;
    clock_gettime(CLOCK_MONOTONIC, &tick);
    for (long long sent = 0, due; sent < wanted + warm;) {
        tick.tv_nsec += 1000000;
        if (tick.tv_nsec >= 1000000000) tick.tv_sec++, tick.tv_nsec -= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &tick, NULL);
        double stamp = (double)tick.tv_sec + (double)tick.tv_nsec / 1e9;
        memcpy(payload, &stamp, sizeof stamp);
        for (due = sent + per_s / 1000; sent < due && sent < wanted + warm; sent++)
            if (rd_kafka_produce(handle, 0, 2, payload, size, NULL, 0, NULL)) fail("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        rd_kafka_poll(producer, 0);
    }
    pthread_join(reader, NULL);
    qsort(took_ms, (size_t)wanted, sizeof *took_ms, ascending);
    snprintf(more, sizeof more, ", \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f, \"client\": \"librdkafka %s\"",
             percentile(0.5), percentile(0.99), percentile(0.999), took_ms[wanted - 1], rd_kafka_version_str());
    report(wanted + warm, more);
    return 0;
}
