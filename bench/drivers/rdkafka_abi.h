/* The few calls of librdkafka's public C interface that the drivers use, declared from its documentation.
 *
 * So the drivers need no development package: they are linked with the library that confluent-kafka brings along, or with the
 * system's. The interface has kept these signatures since 0.11. */
#ifndef HEADRACE_BENCH_RDKAFKA_ABI_H
#define HEADRACE_BENCH_RDKAFKA_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;

typedef struct {
    char *topic;
    int32_t partition;
    int64_t offset;
} rd_kafka_topic_partition_t; /* the head of it: what is set here */

typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *opaque;
} rd_kafka_message_t;

enum { PRODUCER = 0, CONSUMER = 1 };
enum { ERR_QUEUE_FULL = -184, ERR_PARTITION_EOF = -191, ERR_TIMED_OUT = -185 };

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *name, const char *value, char *error, size_t size);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *, void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int type, rd_kafka_conf_t *, char *error, size_t size);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *topic, void *conf);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t partition, int flags, void *payload, size_t len, const void *key, size_t key_len,
                     void *opaque);
int rd_kafka_produce_batch(rd_kafka_topic_t *, int32_t partition, int flags, rd_kafka_message_t *, int count);
int rd_kafka_last_error(void);
int rd_kafka_poll(rd_kafka_t *, int timeout_ms);
int rd_kafka_flush(rd_kafka_t *, int timeout_ms);
int rd_kafka_outq_len(rd_kafka_t *);
int rd_kafka_query_watermark_offsets(rd_kafka_t *, const char *topic, int32_t partition, int64_t *low, int64_t *high, int timeout_ms);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int size);
rd_kafka_topic_partition_t *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *topic, int32_t partition);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int timeout_ms, rd_kafka_message_t **, size_t size);
rd_kafka_message_t *rd_kafka_consumer_poll(rd_kafka_t *, int timeout_ms);
void rd_kafka_message_destroy(rd_kafka_message_t *);
const char *rd_kafka_err2str(int);
const char *rd_kafka_version_str(void);

/* Apply `name=value` words; a name or value that librdkafka refuses ends the driver. */
static inline rd_kafka_conf_t *conf_from_words(char **words, int count) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    char error[512];
    for (int i = 0; i < count; i++) {
        char *equals = strchr(words[i], '=');
        if (!equals) fail("%s is not name=value", words[i]);
        *equals = 0;
        if (rd_kafka_conf_set(conf, words[i], equals + 1, error, sizeof error)) fail("%s: %s", words[i], error);
        *equals = '=';
    }
    return conf;
}

/* Return once the partition has a leader that answers: the connection stands, metadata is known. */
static inline void wait_for_partition(rd_kafka_t *client, const char *topic) {
    int64_t low, high;
    int error = 0;
    for (int turn = 0; turn < 100; turn++) {
        error = rd_kafka_query_watermark_offsets(client, topic, 0, &low, &high, 5000);
        if (!error) return;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    fail("%s has no leader: %s", topic, rd_kafka_err2str(error));
}

#endif
