/* Connection to a RabbitMQ on loopback with one open channel; every failure ends the driver with its text. */
#ifndef HEADRACE_BENCH_RABBITMQ_H
#define HEADRACE_BENCH_RABBITMQ_H

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include "driver.h"

static inline void must(amqp_connection_state_t connection, const char *what) {
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) fail("%s: %s", what, amqp_error_string2(reply.library_error));
    fail("%s: the server refused (%s)", what, reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD
        ? (char *)((amqp_channel_close_t *)reply.reply.decoded)->reply_text.bytes : amqp_method_name(reply.reply.id));
}

static inline amqp_connection_state_t connected(int port) {
    amqp_connection_state_t connection = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(connection);
    if (!socket || amqp_socket_open(socket, "127.0.0.1", port)) fail("cannot connect to port %d", port);
    if (amqp_login(connection, "/", 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest").reply_type != AMQP_RESPONSE_NORMAL)
        fail("login refused");
    amqp_channel_open(connection, 1);
    must(connection, "channel");
    return connection;
}

#endif
