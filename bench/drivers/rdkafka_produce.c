/* Send COUNT messages of SIZE bytes to partition 0 and wait until each is acknowledged. One producer, as in the paper.
 *
 * usage: rdkafka_produce TOPIC COUNT SIZE name=value...   (librdkafka's settings, bootstrap.servers among them)
 *
 * acks=0: librdkafka calls a message delivered once it is on its way, so the clock runs on through one more round trip on the
 * same connection (ListOffsets): the broker answers in order, hence has taken everything in by then. */
#include "driver.h"
#include "rdkafka_abi.h"

#define ROUND 1000

static long long delivered, refused;
static int first_error;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client, (void)opaque;
    if (message->err) {
        if (!refused++) first_error = message->err;
    } else {
        delivered++;
    }
}

int main(int count, char **words) {
    if (count < 5) fail("usage: %s TOPIC COUNT SIZE name=value...", words[0]);
    const char *topic = words[1];
    long long total = atoll(words[2]), sent = 0;
    size_t size = (size_t)atol(words[3]);
    char error[512], more[160];
    rd_kafka_conf_t *conf = conf_from_words(words + 4, count - 4);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *client = rd_kafka_new(PRODUCER, conf, error, sizeof error);
    if (!client) fail("%s", error);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
    char *payload = malloc(size);
    memset(payload, 'm', size);
    rd_kafka_message_t messages[ROUND];
    wait_for_partition(client, topic);
    wait_for_go();

    double deadline = now_s() + 170;
    while (sent < total) {
        int wanted = total - sent < ROUND ? (int)(total - sent) : ROUND;
        for (int i = 0; i < wanted; i++) messages[i] = (rd_kafka_message_t){.payload = payload, .len = size};
        int taken = rd_kafka_produce_batch(handle, 0, 0, messages, wanted); /* flags 0: librdkafka does not copy or free */
        sent += taken;
        if (taken < wanted) {
            for (int i = 0; i < wanted; i++)
                if (messages[i].err && messages[i].err != ERR_QUEUE_FULL) fail("refused: %s", rd_kafka_err2str(messages[i].err));
            rd_kafka_poll(client, 5);
        } else {
            rd_kafka_poll(client, 0);
        }
        if (now_s() > deadline) fail("only %lld of %lld delivered in time", delivered, total);
    }
    if (rd_kafka_flush(client, 120000)) fail("%d messages not acknowledged in time", rd_kafka_outq_len(client));
    int64_t low, high;
    int failed = rd_kafka_query_watermark_offsets(client, topic, 0, &low, &high, 60000);
    if (failed) fail("no answer to the last round trip: %s", rd_kafka_err2str(failed));
    if (refused || delivered != total)
        fail("%lld delivered, %lld refused of %lld: %s", delivered, refused, total, rd_kafka_err2str(first_error));
    snprintf(more, sizeof more, ", \"client\": \"librdkafka %s\"", rd_kafka_version_str());
    report(delivered, more);
    return 0;
}
