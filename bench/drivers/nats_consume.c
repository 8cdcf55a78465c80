/* Read COUNT messages of SIZE bytes of a JetStream stream from its beginning: a push consumer without acknowledgements.
 *
 * usage: nats_consume PORT STREAM COUNT SIZE */
#include <nats/nats.h>
#include <semaphore.h>

#include "driver.h"

static long long total, got, wrong;
static int size;
static sem_t done;

static void must(natsStatus status, const char *what) {
    if (status != NATS_OK) fail("%s: %s", what, natsStatus_GetText(status));
}

static void on_message(natsConnection *connection, natsSubscription *subscription, natsMsg *message, void *closure) {
    (void)connection, (void)subscription, (void)closure;
    wrong += natsMsg_GetDataLength(message) != size;
    natsMsg_Destroy(message);
    if (++got == total) sem_post(&done);
}

int main(int count, char **words) {
    if (count != 5) fail("usage: %s PORT STREAM COUNT SIZE", words[0]);
    char url[64];
    total = atoll(words[3]);
    size = atoi(words[4]);
    natsOptions *options;
    natsConnection *connection;
    natsSubscription *subscription;
    jsCtx *context;
    jsSubOptions how;
    sem_init(&done, 0, 0);
    snprintf(url, sizeof url, "nats://127.0.0.1:%s", words[1]);
    must(natsOptions_Create(&options), "options");
    must(natsOptions_SetURL(options, url), "url");
    must(natsOptions_SetMaxPendingMsgs(options, 10000000), "pending limit");
    must(natsConnection_Connect(&connection, options), "connect");
    must(natsConnection_JetStream(&context, connection, NULL), "JetStream");
    jsSubOptions_Init(&how);
    how.Stream = words[2];
    how.Config.AckPolicy = js_AckNone;
    how.Config.DeliverPolicy = js_DeliverAll;
    wait_for_go();
    must(js_Subscribe(&subscription, context, words[2], on_message, NULL, NULL, &how, NULL), "subscribe");
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 150;
    if (sem_timedwait(&done, &until)) fail("only %lld of %lld came in time", got, total);
    if (wrong) fail("%lld messages of the wrong length", wrong);
    report(got, ", \"client\": \"libnats " NATS_VERSION_STRING "\"");
    return 0;
}
