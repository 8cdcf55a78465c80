/* Read COUNT messages of SIZE bytes of a queue. PREFETCH 0: without acknowledgements; else acknowledged in blocks of half of it.
 *
 * usage: rabbitmq_consume PORT QUEUE COUNT SIZE PREFETCH [first]     `first`: from the beginning of a stream */
#include "rabbitmq.h"

int main(int count, char **words) {
    if (count < 6) fail("usage: %s PORT QUEUE COUNT SIZE PREFETCH [first]", words[0]);
    long long total = atoll(words[3]), got = 0, wrong = 0;
    size_t size = (size_t)atol(words[4]);
    int prefetch = atoi(words[5]);
    amqp_connection_state_t connection = connected(atoi(words[1]));
    amqp_table_entry_t offset = {.key = amqp_cstring_bytes("x-stream-offset"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("first")}};
    amqp_table_t arguments = {.num_entries = count > 6, .entries = &offset};
    if (prefetch) {
        amqp_basic_qos(connection, 1, 0, (uint16_t)prefetch, 0);
        must(connection, "qos");
    }
    wait_for_go();
    amqp_basic_consume(connection, 1, amqp_cstring_bytes(words[2]), amqp_empty_bytes, 0, prefetch == 0, 0, arguments);
    must(connection, "consume");
    struct timeval patience = {.tv_sec = 60};
    while (got < total) {
        amqp_envelope_t envelope;
        amqp_maybe_release_buffers(connection);
        amqp_rpc_reply_t reply = amqp_consume_message(connection, &envelope, &patience, 0);
        if (reply.reply_type != AMQP_RESPONSE_NORMAL) fail("only %lld of %lld came: %s", got, total, amqp_error_string2(reply.library_error));
        wrong += envelope.message.body.len != size;
        got++;
        if (prefetch && (got % (prefetch / 2) == 0 || got == total)) amqp_basic_ack(connection, 1, envelope.delivery_tag, 1);
        amqp_destroy_envelope(&envelope);
    }
    if (wrong) fail("%lld messages of the wrong length", wrong);
    report(got, ", \"client\": \"librabbitmq " AMQP_VERSION_STRING "\"");
    return 0;
}
