/* Publish COUNT persistent messages of SIZE bytes to a new durable queue of TYPE (classic, lazy or stream).
 *
 * usage: rabbitmq_produce PORT QUEUE COUNT SIZE TYPE UNCONFIRMED
 * UNCONFIRMED messages at most wait for their confirm; 0: no confirms, and a passive queue_declare at the end proves that the
 * server has taken everything in. */
#include "rabbitmq.h"

static long long confirmed, below;  /* below: every tag under it is confirmed */
static char *is_confirmed;

static void confirm(long long tag) {
    confirmed += !is_confirmed[tag];
    is_confirmed[tag] = 1;
}

/* Take confirms until fewer than `most` messages of `sent` are unconfirmed. */
static void await(amqp_connection_state_t connection, long long sent, long long most) {
    amqp_frame_t frame;
    struct timeval patience = {.tv_sec = 60};
    while (sent - confirmed > most) {
        int status = amqp_simple_wait_frame_noblock(connection, &frame, &patience);
        if (status != AMQP_STATUS_OK) fail("no confirm: %s", amqp_error_string2(status));
        if (frame.frame_type != AMQP_FRAME_METHOD) fail("frame of type %d", frame.frame_type);
        if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD) fail("not a confirm: %s", amqp_method_name(frame.payload.method.id));
        amqp_basic_ack_t *ack = frame.payload.method.decoded;
        confirm((long long)ack->delivery_tag); /* classic queues confirm in any order */
        if (ack->multiple)
            for (; below <= (long long)ack->delivery_tag; below++) confirm(below);
        amqp_maybe_release_buffers(connection);
    }
}

int main(int count, char **words) {
    if (count != 7) fail("usage: %s PORT QUEUE COUNT SIZE classic|lazy|stream UNCONFIRMED", words[0]);
    long long total = atoll(words[3]), window = atoll(words[6]);
    size_t size = (size_t)atol(words[4]);
    amqp_connection_state_t connection = connected(atoi(words[1]));
    amqp_bytes_t queue = amqp_cstring_bytes(words[2]);
    amqp_table_entry_t arguments[2];
    amqp_table_t table = {.num_entries = 0, .entries = arguments};
    if (!strcmp(words[5], "stream") || !strcmp(words[5], "classic")) {
        arguments[table.num_entries++] = (amqp_table_entry_t){.key = amqp_cstring_bytes("x-queue-type"),
            .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(words[5])}};
    } else {
        arguments[table.num_entries++] = (amqp_table_entry_t){.key = amqp_cstring_bytes("x-queue-version"),
            .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 2}};
        arguments[table.num_entries++] = (amqp_table_entry_t){.key = amqp_cstring_bytes("x-queue-mode"),
            .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("lazy")}};
    }
    amqp_queue_declare(connection, 1, queue, 0, 1, 0, 0, table);
    must(connection, "queue_declare");
    if (window) {
        amqp_confirm_select(connection, 1);
        must(connection, "confirm_select");
    }
    char *payload = malloc(size);
    is_confirmed = calloc((size_t)total + 1, 1);
    below = 1;
    memset(payload, 'm', size);
    amqp_bytes_t body = {.len = size, .bytes = payload};
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
    wait_for_go();
    for (long long sent = 0; sent < total;) {
        int status = amqp_basic_publish(connection, 1, amqp_empty_bytes, queue, 0, 0, &properties, body);
        if (status) fail("publish: %s", amqp_error_string2(status));
        sent++;
        if (window) await(connection, sent, window);
    }
    if (window) await(connection, total, 0);
    amqp_queue_declare(connection, 1, queue, 1, 1, 0, 0, amqp_empty_table);
    must(connection, "the last round trip");
    report(total, ", \"client\": \"librabbitmq " AMQP_VERSION_STRING "\"");
    return 0;
}
