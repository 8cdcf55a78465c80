/* Kafka Fetch requests for one partition, version 12; of an answer the batch headers alone are read. Every answer is checked:
 * correlation ids in order, error 0, base offset, whole batches. One connection; the answer's room may be exchanged between two. */
#ifndef HEADRACE_BENCH_FETCHING_H
#define HEADRACE_BENCH_FETCHING_H

#include "big_endian.h"
#include "driver.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER = 61, SLACK = 1 << 16, MOST_IN_FLIGHT = 1024 };

static const char *topic;
static int partition, max_bytes, in_flight;
static char request[512], *answer;
static size_t request_size, offset_at, answer_room;
static uint32_t asked, answered;
static int64_t asked_at[MOST_IN_FLIGHT]; /* fetch offsets under way, by correlation id */
static long long batches, records, payload, received;
static const char *block; /* of the last answer: its whole batches, block_size bytes */
static size_t block_size;

static uint64_t get_unsigned(const char **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = (uint8_t)*(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128 || shift > 28) return value;
    }
}

static void make_request(void) {
    char *at = request + 4, *size = request;
    put(&at, 1, 2), put(&at, 12, 2), put(&at, 0, 4); /* Fetch v12, correlation id */
    put(&at, 3, 2), memcpy(at, "raw", 3), at += 3, put(&at, 0, 1);
    put(&at, -1, 4), put(&at, 500, 4), put(&at, 1, 4), put(&at, max_bytes, 4), put(&at, 0, 1); /* replica, wait, min, max, isolation */
    put(&at, 0, 4), put(&at, -1, 4);                                                           /* no session */
    put(&at, 2, 1), put(&at, strlen(topic) + 1, 1), memcpy(at, topic, strlen(topic)), at += strlen(topic);
    put(&at, 2, 1), put(&at, partition, 4), put(&at, -1, 4);
    offset_at = at - request;
    put(&at, 0, 8), put(&at, -1, 4), put(&at, -1, 8), put(&at, max_bytes, 4);
    put(&at, 0, 2);                               /* tags: partition, topic */
    put(&at, 1, 1), put(&at, 1, 1), put(&at, 0, 1); /* nothing forgotten, no rack, tags */
    request_size = at - request;
    put(&size, request_size - 4, 4);
}

static void receive(int fd, char *into, size_t size) {
    while (size > 0) {
        ssize_t got = recv(fd, into, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("recv: %s", strerror(errno));
        if (got == 0) fail("the server closed the connection after %u answers", answered);
        into += got, size -= got, received += got;
    }
}

static void ask(int fd, int64_t offset) {
    char *at = request + 8;
    put(&at, asked, 4);
    at = request + offset_at;
    put(&at, offset, 8);
    asked_at[asked++ % MOST_IN_FLIGHT] = offset;
    if (send(fd, request, request_size, MSG_NOSIGNAL) != (ssize_t)request_size) fail("send: %s", strerror(errno));
}

/* Take one answer; return where the next fetch goes on, the fetch offset itself when nothing came. */
static int64_t take(int fd) {
    char front[4];
    receive(fd, front, 4);
    size_t size = get(front, 4);
    if (size > answer_room) {
        answer_room = size + SLACK;
        if (!(answer = realloc(answer, answer_room))) fail("no memory for an answer of %zu bytes", size);
    }
    receive(fd, answer, size);
    const char *at = answer;
    uint32_t correlation = get(at, 4);
    if (correlation != answered) fail("answer %u came where %u was due", correlation, answered);
    int64_t offset = asked_at[answered++ % MOST_IN_FLIGHT], next = offset;
    at += 5 + 4; /* correlation id, tags; throttle */
    int error = (int16_t)get(at, 2);
    if (error) fail("error %d for the fetch", error);
    at += 2 + 4 + 1;
    at += get_unsigned(&at) - 1, at += 1;
    int index = get(at, 4);
    error = (int16_t)get(at + 4, 2);
    if (index != partition || error) fail("partition %d: error %d", index, error);
    at += 4 + 2 + 8 + 8 + 8;
    for (uint64_t aborted = get_unsigned(&at); aborted > 1; aborted--) at += 17;
    at += 4;
    uint64_t length = get_unsigned(&at);
    block = at, block_size = 0;
    if (length < 2) return offset;
    const char *end = at + length - 1;
    if (end > answer + size) fail("records of %lu bytes in an answer of %zu", (unsigned long)length, size);
    payload += end - at;
    int first = 1;
    while (end - at >= HEADER) {
        int64_t base = get(at, 8);
        size_t batch_bytes = 12 + get(at + 8, 4);
        if ((size_t)(end - at) < batch_bytes) break; /* others cut the last batch */
        if (base < next && !first) fail("base offset %ld after %ld", (long)base, (long)next);
        next = base + (int32_t)get(at + 23, 4) + 1;
        if (first && next <= offset) fail("a fetch at %ld is answered with a batch that ends at %ld", (long)offset, (long)next);
        first = 0;
        batches++, records += (int32_t)get(at + 57, 4);
        at += batch_bytes;
    }
    block_size = at - block;
    if (first) fail("no whole batch at %ld in %lu bytes", (long)offset, (unsigned long)length);
    return next;
}

static int connect_to(const char *host, const char *port) {
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &wanted, &found)) fail("no address for %s", host);
    int fd = socket(found->ai_family, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen)) fail("connecting to %s:%s: %s", host, port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    freeaddrinfo(found);
    return fd;
}

#endif
