/* Read COUNT messages of SIZE bytes of partition 0 from its beginning, by assignment. One consumer, as in the paper.
 *
 * usage: rdkafka_consume TOPIC COUNT SIZE name=value...
 *
 * With BENCH_PROGRESS=N in the environment the result has "progress": pairs of messages and seconds, about every N messages. */
#include "driver.h"
#include "rdkafka_abi.h"

#define ROUND 10000

int main(int count, char **words) {
    if (count < 5) fail("usage: %s TOPIC COUNT SIZE name=value...", words[0]);
    const char *topic = words[1];
    long long total = atoll(words[2]), got = 0, wrong = 0;
    size_t size = (size_t)atol(words[3]);
    char error[512];
    const char *wanted = getenv("BENCH_PROGRESS");
    long long every = wanted ? atoll(wanted) : 0, next = every;
    /* 48 bytes for each pair, and one for the last. */
    size_t room = 512 + (every > 0 ? (size_t)(total / every + 2) * 48 : 0), used = 0;
    char *progress = calloc(1, room), *more = calloc(1, room + 160);
    rd_kafka_conf_t *conf = conf_from_words(words + 4, count - 4);
    rd_kafka_t *client = rd_kafka_new(CONSUMER, conf, error, sizeof error);
    if (!client) fail("%s", error);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
    rd_kafka_message_t **messages = malloc(ROUND * sizeof *messages);
    wait_for_partition(client, topic);
    rd_kafka_topic_partition_list_t *from = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(from, topic, 0)->offset = -2; /* the beginning */
    wait_for_go();

    int64_t last = -1;
    double deadline = now_s() + 170;
    int failed = rd_kafka_assign(client, from);
    if (failed) fail("assign: %s", rd_kafka_err2str(failed));
    while (got < total) {
        ssize_t found = rd_kafka_consume_batch_queue(queue, 100, messages, ROUND);
        for (ssize_t i = 0; i < found; i++) {
            rd_kafka_message_t *message = messages[i];
            if (message->err) fail("consume: %s", rd_kafka_err2str(message->err));
            wrong += message->len != size || message->offset <= last;
            last = message->offset;
            rd_kafka_message_destroy(message);
        }
        if (found > 0) got += found;
        if (every > 0 && got >= next) {
            used += (size_t)snprintf(progress + used, room - used, "%s[%lld, %.6f]", used ? ", " : "", got, now_s() - driver_start.wall);
            while (next <= got) next += every;
        }
        if (now_s() > deadline) fail("only %lld of %lld came in time", got, total);
    }
    if (wrong) fail("%lld of %lld messages of the wrong length or out of order", wrong, got);
    snprintf(more, room + 160, ", \"client\": \"librdkafka %s\", \"progress\": [%s]", rd_kafka_version_str(), progress);
    report(got, more);
    return 0;
}
