/* Read COUNT messages of SIZE bytes of a stream from its beginning as one member of a new group, without acknowledgements.
 *
 * usage: redis_consume PORT STREAM COUNT SIZE MESSAGES_A_READ */
#include <hiredis/hiredis.h>
#include <unistd.h>

#include "driver.h"

int main(int count, char **words) {
    if (count != 6) fail("usage: %s PORT STREAM COUNT SIZE MESSAGES_A_READ", words[0]);
    long long total = atoll(words[3]), got = 0, wrong = 0;
    size_t size = (size_t)atol(words[4]);
    redisContext *redis = redisConnect("127.0.0.1", atoi(words[1]));
    if (!redis || redis->err) fail("connect: %s", redis ? redis->errstr : "no memory");
    redisReply *reply = redisCommand(redis, "XGROUP CREATE %s bench-%d 0", words[2], (int)getpid());
    if (!reply || reply->type == REDIS_REPLY_ERROR) fail("XGROUP: %s", reply ? reply->str : redis->errstr);
    freeReplyObject(reply);
    wait_for_go();
    while (got < total) {
        reply = redisCommand(redis, "XREADGROUP GROUP bench-%d one COUNT %s NOACK STREAMS %s >", (int)getpid(), words[5], words[2]);
        if (!reply || reply->type != REDIS_REPLY_ARRAY) fail("XREADGROUP after %lld: %s", got, reply && reply->str ? reply->str : redis->errstr);
        redisReply *entries = reply->element[0]->element[1];
        for (size_t i = 0; i < entries->elements; i++) wrong += entries->element[i]->element[1]->element[1]->len != size;
        got += (long long)entries->elements;
        freeReplyObject(reply);
    }
    if (wrong || got != total) fail("%lld messages of %lld, %lld of the wrong length", got, total, wrong);
    char more[64];
    snprintf(more, sizeof more, ", \"client\": \"hiredis %d.%d.%d\"", HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
    report(got, more);
    return 0;
}
