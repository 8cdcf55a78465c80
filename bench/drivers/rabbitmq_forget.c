/* Delete a queue. usage: rabbitmq_forget PORT QUEUE */
#include "rabbitmq.h"

int main(int count, char **words) {
    if (count != 3) fail("usage: %s PORT QUEUE", words[0]);
    amqp_connection_state_t connection = connected(atoi(words[1]));
    wait_for_go();
    amqp_queue_delete(connection, 1, amqp_cstring_bytes(words[2]), 0, 0);
    must(connection, "queue_delete");
    report(1, "");
    return 0;
}
