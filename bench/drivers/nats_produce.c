/* Publish COUNT messages of SIZE bytes to a new file-backed JetStream stream, asynchronously, PENDING unacknowledged at most.
 *
 * usage: nats_produce PORT STREAM COUNT SIZE PENDING */
#include <nats/nats.h>

#include "driver.h"

static volatile long long refused;

static void on_error(jsCtx *context, jsPubAckErr *error, void *closure) {
    (void)context, (void)error, (void)closure;
    refused++;
}

static void must(natsStatus status, const char *what) {
    if (status != NATS_OK) fail("%s: %s", what, natsStatus_GetText(status));
}

int main(int count, char **words) {
    if (count != 6) fail("usage: %s PORT STREAM COUNT SIZE PENDING", words[0]);
    char url[64];
    long long total = atoll(words[3]);
    int size = atoi(words[4]);
    natsOptions *options;
    natsConnection *connection;
    jsCtx *context;
    jsOptions js_options;
    jsStreamConfig stream;
    snprintf(url, sizeof url, "nats://127.0.0.1:%s", words[1]);
    must(natsOptions_Create(&options), "options");
    must(natsOptions_SetURL(options, url), "url");
    must(natsConnection_Connect(&connection, options), "connect");
    jsOptions_Init(&js_options);
    js_options.PublishAsync.MaxPending = atoi(words[5]);
    js_options.PublishAsync.ErrHandler = on_error;
    must(natsConnection_JetStream(&context, connection, &js_options), "JetStream");
    jsStreamConfig_Init(&stream);
    stream.Name = words[2];
    stream.Subjects = (const char *[]){words[2]};
    stream.SubjectsLen = 1;
    stream.Storage = js_FileStorage;
    must(js_AddStream(NULL, context, &stream, NULL, NULL), "add stream");
    char *payload = malloc((size_t)size);
    memset(payload, 'm', (size_t)size);
    wait_for_go();
    for (long long i = 0; i < total; i++) must(js_PublishAsync(context, words[2], payload, size, NULL), "publish");
    jsPubOptions wait;
    jsPubOptions_Init(&wait);
    wait.MaxWait = 120000;
    must(js_PublishAsyncComplete(context, &wait), "waiting for the last acknowledgement");
    if (refused) fail("%lld of %lld refused", refused, total);
    jsStreamInfo *info;
    must(js_GetStreamInfo(&info, context, words[2], NULL, NULL), "stream info");
    if ((long long)info->State.Msgs != total) fail("%lld messages in the stream, not %lld", (long long)info->State.Msgs, total);
    report(total, ", \"client\": \"libnats " NATS_VERSION_STRING "\"");
    return 0;
}
