/* XADD COUNT messages of SIZE bytes to a stream, PIPELINE commands a round trip.
 *
 * usage: redis_produce PORT STREAM COUNT SIZE PIPELINE */
#include <hiredis/hiredis.h>

#include "driver.h"

int main(int count, char **words) {
    if (count != 6) fail("usage: %s PORT STREAM COUNT SIZE PIPELINE", words[0]);
    long long total = atoll(words[3]), added = 0;
    size_t size = (size_t)atol(words[4]);
    int pipeline = atoi(words[5]);
    redisContext *redis = redisConnect("127.0.0.1", atoi(words[1]));
    if (!redis || redis->err) fail("connect: %s", redis ? redis->errstr : "no memory");
    char *payload = malloc(size), *command;
    memset(payload, 'm', size);
    const char *argv[] = {"XADD", words[2], "*", "m", payload};
    size_t lengths[] = {4, strlen(words[2]), 1, 1, size};
    int length = (int)redisFormatCommandArgv(&command, 5, argv, lengths);
    redisReply *reply;
    wait_for_go();
    while (added < total) {
        int now = total - added < pipeline ? (int)(total - added) : pipeline;
        for (int i = 0; i < now; i++) redisAppendFormattedCommand(redis, command, (size_t)length);
        for (int i = 0; i < now; i++) {
            if (redisGetReply(redis, (void **)&reply) != REDIS_OK) fail("no answer: %s", redis->errstr);
            if (reply->type != REDIS_REPLY_STRING) fail("XADD: %s", reply->str);
            freeReplyObject(reply);
        }
        added += now;
    }
    char more[64];
    snprintf(more, sizeof more, ", \"client\": \"hiredis %d.%d.%d\"", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    report(added, more);
    return 0;
}
