/* The yardstick for latency: a minimal Kafka broker. One partition in memory, nothing checked, nothing on disk.
 *
 * usage: bare_broker PORT
 * Serves, until it is killed, one librdkafka that produces to partition 0 of one topic and one that reads it. A waiting reader
 * gets a batch before the batch is acknowledged. Knows one version of each request: ApiVersions 0, Metadata 1, Produce 3,
 * Fetch 4, ListOffsets 1, FindCoordinator 0.
 * Source: Kafka's message definitions. */
#define _GNU_SOURCE
#include "big_endian.h"
#include "driver.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_CONNECTIONS = 64, MOST_BATCHES = 1 << 20, ROOM = 256 << 20, INPUT = 4 << 20, HEADER = 61, AT_ONCE = 1 << 20 };
enum { PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 10, API_VERSIONS = 18, UNSUPPORTED_VERSION = 35 };

static const struct { int key, version; } served[] = {
    {PRODUCE, 3}, {FETCH, 4}, {LIST_OFFSETS, 1}, {METADATA, 1}, {FIND_COORDINATOR, 0}, {API_VERSIONS, 0},
};
enum { SERVED = sizeof served / sizeof *served };

typedef struct {
    int fd;
    size_t held;
    char *input;
    int is_waiting; /* for what comes at `offset`, to answer `correlation` with it */
    int64_t offset;
    uint32_t correlation;
} Connection;

static Connection connections[MOST_CONNECTIONS];
static int port;
static char *stored, topic[256];
static size_t stored_bytes;
static int64_t end_offset;
static struct { int64_t offset; size_t at; } batches[MOST_BATCHES + 1];
static int batch_count;

static void put_text(char **at, const char *text) {
    put(at, strlen(text), 2);
    memcpy(*at, text, strlen(text));
    *at += strlen(text);
}

/* Takes a text of a request; skips it where `into` is NULL. */
static const char *take_text(const char *at, char *into) {
    int16_t size = (int16_t)get(at, 2);
    if (size < 0) return at + 2;
    if (into) {
        if (size > 255) fail("a name of %d bytes", size);
        memcpy(into, at + 2, (size_t)size);
        into[size] = 0;
    }
    return at + 2 + size;
}

static void give(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0) return; /* its end will be read */
        data += sent, size -= (size_t)sent;
    }
}

/* Sends what stands from `answer` to `at`, the first four bytes left free for its size. */
static void give_answer(int fd, char *answer, const char *at) {
    char *front = answer;
    put(&front, (uint64_t)(at - answer - 4), 4);
    give(fd, answer, (size_t)(at - answer));
}

static char *begin(char *answer, uint32_t correlation) {
    char *at = answer + 4;
    put(&at, correlation, 4);
    return at;
}

static void give_batches(Connection *to) {
    static char answer[AT_ONCE + INPUT];
    int low = 0, high = batch_count;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (middle < batch_count && batches[middle].offset <= to->offset) low = middle; else high = middle - 1;
    }
    int behind = low + 1;
    while (behind < batch_count && batches[behind + 1].at - batches[low].at <= AT_ONCE) behind++;
    size_t bytes = batches[behind].at - batches[low].at;
    char *at = begin(answer, to->correlation);
    put(&at, 0, 4), put(&at, 1, 4), put_text(&at, topic), put(&at, 1, 4);                        /* throttle; one topic, one partition */
    put(&at, 0, 4), put(&at, 0, 2), put(&at, (uint64_t)end_offset, 8), put(&at, (uint64_t)end_offset, 8);
    put(&at, (uint64_t)-1, 4), put(&at, bytes, 4);                                               /* nothing aborted; the batches */
    memcpy(at, stored + batches[low].at, bytes);
    give_answer(to->fd, answer, at + bytes);
    to->is_waiting = 0;
}

static void produce(Connection *from, const char *at, uint32_t correlation) {
    char answer[512];
    at = take_text(at, NULL) + 6 + 4; /* transactional id; acks, timeout; one topic */
    at = take_text(at, topic) + 8;    /* one partition, its index */
    size_t bytes = get(at, 4);
    char *batch = stored + stored_bytes;
    if (stored_bytes + bytes > ROOM || batch_count == MOST_BATCHES) fail("no room for another batch");
    memcpy(batch, at + 4, bytes);
    int64_t offset = end_offset;
    put(&batch, (uint64_t)offset, 8);
    batches[batch_count].offset = offset, batches[batch_count++].at = stored_bytes;
    stored_bytes += bytes, end_offset += (int64_t)get(stored + batches[batch_count - 1].at + 57, 4);
    batches[batch_count].at = stored_bytes;
    for (Connection *one = connections; one < connections + MOST_CONNECTIONS; one++)
        if (one->is_waiting && one->offset < end_offset) give_batches(one);
    char *out = begin(answer, correlation);
    put(&out, 1, 4), put_text(&out, topic), put(&out, 1, 4);
    put(&out, 0, 4), put(&out, 0, 2), put(&out, (uint64_t)offset, 8), put(&out, (uint64_t)-1, 8), put(&out, 0, 4);
    give_answer(from->fd, answer, out);
}

static void fetch(Connection *from, const char *at, uint32_t correlation) {
    at = take_text(at + 17 + 4, NULL) + 8; /* replica, wait, least, most, isolation; one topic; one partition, its index */
    from->offset = (int64_t)get(at, 8), from->correlation = correlation, from->is_waiting = 1;
    if (from->offset < end_offset) give_batches(from);
}

static void list_offsets(Connection *from, const char *at, uint32_t correlation) {
    char answer[512], name[256], *out = begin(answer, correlation);
    at = take_text(at + 4 + 4, name) + 8; /* replica; one topic; one partition, its index */
    put(&out, 1, 4), put_text(&out, name), put(&out, 1, 4), put(&out, 0, 4), put(&out, 0, 2), put(&out, (uint64_t)-1, 8);
    put(&out, (int64_t)get(at, 8) == -2 ? 0 : (uint64_t)end_offset, 8);
    give_answer(from->fd, answer, out);
}

static char *put_broker(char *out) {
    put(&out, 1, 4), put_text(&out, "127.0.0.1"), put(&out, (uint64_t)port, 4);
    return out;
}

static void metadata(Connection *from, const char *at, uint32_t correlation) {
    char answer[1024], name[256], *out = begin(answer, correlation);
    int32_t count = (int32_t)get(at, 4);
    if (count > 1) fail("metadata of %d topics", count);
    put(&out, 1, 4), out = put_broker(out), put(&out, (uint64_t)-1, 2), put(&out, 1, 4); /* one broker, no rack; it is the controller */
    put(&out, count > 0, 4);
    if (count > 0) {
        take_text(at + 4, name);
        put(&out, 0, 2), put_text(&out, name), put(&out, 0, 1), put(&out, 1, 4); /* error; name; internal; one partition */
        put(&out, 0, 2), put(&out, 0, 4), put(&out, 1, 4);                       /* error, index, leader */
        put(&out, 1, 4), put(&out, 1, 4), put(&out, 1, 4), put(&out, 1, 4);      /* one replica, in sync */
    }
    give_answer(from->fd, answer, out);
}

static void api_versions(Connection *from, int version, uint32_t correlation) {
    char answer[512], *out = begin(answer, correlation);
    put(&out, version ? UNSUPPORTED_VERSION : 0, 2), put(&out, SERVED, 4);
    for (int i = 0; i < SERVED; i++) put(&out, (uint64_t)served[i].key, 2), put(&out, 0, 2), put(&out, (uint64_t)served[i].version, 2);
    give_answer(from->fd, answer, out);
}

static void answer_request(Connection *from, const char *at) {
    char answer[64], *out;
    int key = (int)get(at, 2), version = (int)get(at + 2, 2);
    uint32_t correlation = (uint32_t)get(at + 4, 4);
    at = take_text(at + 8, NULL); /* client id */
    switch (key) {
    case API_VERSIONS: api_versions(from, version, correlation); return;
    case METADATA: metadata(from, at, correlation); return;
    case LIST_OFFSETS: list_offsets(from, at, correlation); return;
    case FETCH: fetch(from, at, correlation); return;
    case PRODUCE: produce(from, at, correlation); return;
    case FIND_COORDINATOR:
        out = begin(answer, correlation);
        put(&out, 0, 2), out = put_broker(out);
        give_answer(from->fd, answer, out);
        return;
    default: fail("request %d version %d is not served here", key, version);
    }
}

/* Returns whether the connection lives on. */
static int receive(Connection *from) {
    ssize_t got = recv(from->fd, from->input + from->held, INPUT - from->held, 0);
    if (got <= 0) return 0;
    from->held += (size_t)got;
    size_t at = 0;
    while (from->held - at >= 4) {
        size_t size = get(from->input + at, 4);
        if (size > INPUT - 4) fail("a request of %zu bytes", size);
        if (from->held - at < 4 + size) break;
        answer_request(from, from->input + at + 4);
        at += 4 + size;
    }
    memmove(from->input, from->input + at, from->held -= at);
    return 1;
}

static void greet(int listener, int poller) {
    int fd = accept(listener, NULL, NULL), one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < MOST_CONNECTIONS; i++) {
        if (connections[i].fd) continue;
        connections[i] = (Connection){.fd = fd, .input = malloc(INPUT)};
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &connections[i]};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
        return;
    }
    fail("more than %d connections", MOST_CONNECTIONS);
}

int main(int count, char **words) {
    if (count != 2) fail("usage: %s PORT", words[0]);
    port = atoi(words[1]);
    stored = malloc(ROOM);
    int listener = socket(AF_INET, SOCK_STREAM, 0), poller = epoll_create1(0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16)) fail("cannot listen on %d", port);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event events[16];
        int found = epoll_wait(poller, events, 16, -1);
        for (int i = 0; i < found; i++) {
            Connection *from = events[i].data.ptr;
            if (!from) greet(listener, poller);
            else if (!receive(from)) {
                close(from->fd), free(from->input);
                *from = (Connection){0};
            }
        }
    }
}
