/* A minimal producer: the same Kafka Produce request over pipelined loopback connections, as fast as the responses allow.
 *
 *   cc -O2 -o raw_produce raw_produce.c
 *   raw_produce HOST PORT TOPIC PARTITION BATCH_RECORDS VALUE_BYTES IN_FLIGHT COUNT|SECONDSs ACKS VERSION [PARTITIONS [CONNECTIONS]]
 *
 * Measures a server's ceiling: each request is built once, only correlation id and partition are set again, so the client costs a
 * fraction of the server. COUNT is messages, `5s` is time. With PARTITIONS requests go in turn to PARTITION, PARTITION+1, ...;
 * with CONNECTIONS each has IN_FLIGHT of its own. VERSION is 3 to 9 (9 flexible). Every answer is checked: correlation ids in order, error 0,
 * base offsets ascending per partition. acks=0 ends with a round trip (ApiVersions v0). Prints one JSON object; exit code 1 and one
 * line on stderr where something is wrong. The topic must exist.
 */
#include "big_endian.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SEND_BUFFER = 128 * 1024, RECEIVE_BUFFER = 256 * 1024, IDLE_MS = 20000 };

typedef struct {
    int fd, has_output;
    uint32_t asked, sent, answered; /* requests put into the buffer, whole ones handed to the kernel, answers taken */
    char *out;                      /* `slots` requests in a row, filled once */
    size_t from, to;                /* bytes of `out` that are still to be sent */
    char held[256];                 /* the beginning of an answer whose rest has not come */
    size_t held_size;
} Connection;

static const char *topic;
static int partition, batch_records, value_bytes, in_flight, acks, version, partitions = 1, connection_count = 1, slots;
static size_t request_size, correlation_at = 8, index_at;
static int64_t *last_base;
static uint64_t limit_requests = UINT64_MAX, asked_total, answered_total;
static double seconds;

static void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("raw_produce: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(1);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void put_unsigned(char **at, uint64_t value) {
    for (; value > 127; value >>= 7) *(*at)++ = (char)(value | 128);
    *(*at)++ = (char)value;
}

static void put_signed(char **at, int64_t value) { put_unsigned(at, (uint64_t)(value << 1) ^ (uint64_t)(value >> 63)); }

static void put_string(char **at, const char *text, int flexible) {
    if (flexible) put_unsigned(at, strlen(text) + 1); else put(at, strlen(text), 2);
    memcpy(*at, text, strlen(text));
    *at += strlen(text);
}

static uint32_t crc32c(const char *data, size_t size) {
    uint32_t crc = ~0u;
    while (size--) {
        crc ^= (uint8_t)*data++;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    return ~crc;
}

static size_t make_batch(char *batch) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now_ms = (uint64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    char *at = batch + 61, *head = batch;
    for (int i = 0; i < batch_records; i++) {
        char front[32], *f = front;
        *f++ = 0;               /* attributes */
        put_signed(&f, 0);      /* timestamp delta */
        put_signed(&f, i);      /* offset delta */
        put_signed(&f, -1);     /* no key */
        put_signed(&f, value_bytes);
        put_signed(&at, (f - front) + value_bytes + 1);
        memcpy(at, front, f - front);
        at += f - front;
        memset(at, 'm', value_bytes);
        at += value_bytes;
        put_signed(&at, 0); /* no headers */
    }
    size_t size = at - batch;
    put(&head, 0, 8), put(&head, size - 12, 4), put(&head, 0, 4), put(&head, 2, 1), put(&head, 0, 4);
    put(&head, 0, 2), put(&head, batch_records - 1, 4), put(&head, now_ms, 8), put(&head, now_ms, 8);
    put(&head, -1, 8), put(&head, -1, 2), put(&head, -1, 4), put(&head, batch_records, 4);
    head = batch + 17;
    put(&head, crc32c(batch + 21, size - 21), 4);
    return size;
}

static char *make_request(void) {
    char *batch = malloc((size_t)batch_records * (value_bytes + 40) + 128);
    size_t batch_size = make_batch(batch);
    char *request = malloc(batch_size + strlen(topic) + 256), *at = request + 4;
    int flexible = version >= 9;
    put(&at, 0, 2), put(&at, version, 2), put(&at, 0, 4), put_string(&at, "raw", 0);
    if (flexible) put(&at, 0, 1); /* no tags */
    if (flexible) put(&at, 0, 1); else put(&at, -1, 2); /* no transactional id */
    put(&at, acks, 2), put(&at, 30000, 4);
    if (flexible) put_unsigned(&at, 2); else put(&at, 1, 4);
    put_string(&at, topic, flexible);
    if (flexible) put_unsigned(&at, 2); else put(&at, 1, 4);
    index_at = at - request;
    put(&at, partition, 4);
    if (flexible) put_unsigned(&at, batch_size + 1); else put(&at, batch_size, 4);
    memcpy(at, batch, batch_size);
    at += batch_size;
    if (flexible) put(&at, 0, 3); /* no tags: partition, topic, request */
    request_size = at - request;
    at = request;
    put(&at, request_size - 4, 4);
    free(batch);
    return request;
}

static int connect_to(const char *host, const char *port) {
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &wanted, &found)) die("no address for %s", host);
    int fd = socket(found->ai_family, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen)) die("connecting to %s:%s: %s", host, port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    freeaddrinfo(found);
    return fd;
}

static void fill(Connection *c) {
    uint32_t room = in_flight - (c->asked - c->answered);
    if (room > (uint32_t)slots) room = slots;
    if (room > limit_requests - asked_total) room = limit_requests - asked_total;
    for (uint32_t i = 0; i < room; i++) {
        char *at = c->out + i * request_size + correlation_at;
        put(&at, c->asked + i, 4);
        at = c->out + i * request_size + index_at;
        if (partitions > 1) put(&at, partition + (c->asked + i) % partitions, 4);
    }
    c->asked += room, asked_total += room;
    c->from = 0, c->to = room * request_size;
}

/* Sends what the kernel takes; fills again while the window is open and the clock allows. */
static void push(Connection *c, int epoll, int may_ask) {
    for (;;) {
        if (c->from == c->to) {
            if (acks == 0) answered_total += c->asked - c->answered, c->answered = c->asked;
            if (may_ask) fill(c);
            if (c->from == c->to || !may_ask) break;
        }
        ssize_t sent = send(c->fd, c->out + c->from, c->to - c->from, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) die("send: %s", strerror(errno));
        c->from += sent;
    }
    int has_output = c->from < c->to;
    if (has_output != c->has_output) {
        c->has_output = has_output;
        struct epoll_event event = {.events = EPOLLIN | (has_output ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
    }
}

static void check(Connection *c, const char *answer, size_t size) {
    const char *at = answer + 4;
    uint32_t correlation = get(at, 4);
    if (correlation != c->answered) die("answer %u came where %u was due", correlation, c->answered);
    at += version >= 9 ? 4 + 1 + 1 + 1 + strlen(topic) + 1 : 4 + 4 + 2 + strlen(topic) + 4;
    if (at + 14 > answer + 4 + size) die("an answer of %zu bytes is too short", size);
    int index = get(at, 4), error = (int16_t)get(at + 4, 2), wanted = partition + (partitions > 1 ? (int)(correlation % partitions) : 0);
    int64_t base = get(at + 6, 8), *last = &last_base[index - partition];
    if (index != wanted) die("partition %d answered where %d was asked", index, wanted);
    if (error) die("request %u to partition %d: error %d", correlation, index, error);
    if (connection_count == 1 && base <= *last) die("base offset %ld after %ld in partition %d", (long)base, (long)*last, index);
    if (base < 0) die("base offset %ld", (long)base);
    *last = base;
    c->answered++, answered_total++;
}

static void take_answers(Connection *c) {
    static char buffer[RECEIVE_BUFFER + 256];
    memcpy(buffer, c->held, c->held_size);
    ssize_t received = recv(c->fd, buffer + c->held_size, RECEIVE_BUFFER, 0);
    if (received < 0 && errno == EAGAIN) return;
    if (received <= 0) die("the server closed the connection after %u answers", c->answered);
    size_t have = c->held_size + received, at = 0, size;
    while (have - at >= 4 && have - at - 4 >= (size = get(buffer + at, 4))) check(c, buffer + at, size), at += 4 + size;
    c->held_size = have - at;
    if (c->held_size > sizeof c->held) die("an answer of more than %zu bytes", sizeof c->held);
    memcpy(c->held, buffer + at, c->held_size);
}

static void round_trip(Connection *c) {
    char request[] = {0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 0, -1, -1}, answer[4];
    fcntl(c->fd, F_SETFL, 0);
    if (send(c->fd, request, sizeof request, MSG_NOSIGNAL) < 0 || recv(c->fd, answer, 4, MSG_WAITALL) != 4)
        die("the server closed a connection: with acks=0 that is how it refuses");
}

int main(int count, char **words) {
    if (count < 11) die("HOST PORT TOPIC PARTITION BATCH_RECORDS VALUE_BYTES IN_FLIGHT COUNT|SECONDSs ACKS VERSION [PARTITIONS [CONNECTIONS]]");
    topic = words[3], partition = atoi(words[4]), batch_records = atoi(words[5]), value_bytes = atoi(words[6]);
    in_flight = atoi(words[7]), acks = atoi(words[9]), version = atoi(words[10]);
    if (count > 11) partitions = atoi(words[11]);
    if (count > 12) connection_count = atoi(words[12]);
    if (version < 3 || version > 9 || batch_records < 1 || value_bytes < 0 || in_flight < 1 || partitions < 1 || connection_count < 1)
        die("VERSION is 3 to 9; BATCH_RECORDS, IN_FLIGHT, PARTITIONS and CONNECTIONS are at least 1");
    if (strchr(words[8], 's')) seconds = atof(words[8]);
    else limit_requests = (strtoull(words[8], 0, 10) + batch_records - 1) / batch_records;

    char *request = make_request();
    slots = SEND_BUFFER / request_size;
    if (slots < 1) slots = 1;
    if (slots > in_flight) slots = in_flight;
    last_base = malloc(partitions * sizeof *last_base);
    for (int i = 0; i < partitions; i++) last_base[i] = -1;
    Connection *all = calloc(connection_count, sizeof *all);
    int epoll = epoll_create1(0);
    for (int i = 0; i < connection_count; i++) {
        all[i].fd = connect_to(words[1], words[2]);
        all[i].out = malloc(slots * request_size);
        for (int slot = 0; slot < slots; slot++) memcpy(all[i].out + slot * request_size, request, request_size);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
    }

    double began = now_s();
    int may_ask = 1;
    for (int i = 0; i < connection_count; i++) push(&all[i], epoll, 1);
    while (answered_total < asked_total || (may_ask && asked_total < limit_requests)) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, IDLE_MS);
        if (ready == 0) die("no answer for %d s: %lu of %lu", IDLE_MS / 1000, (unsigned long)answered_total, (unsigned long)asked_total);
        if (seconds > 0 && now_s() - began >= seconds) may_ask = 0;
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) take_answers(c);
            push(c, epoll, may_ask);
        }
    }
    if (acks == 0)
        for (int i = 0; i < connection_count; i++) round_trip(&all[i]);
    double wall = now_s() - began;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    double messages = (double)answered_total * batch_records;
    printf("{\"requests\": %lu, \"messages\": %.0f, \"request_bytes\": %zu, \"wall_s\": %.3f, \"msgs_per_s\": %.0f, \"requests_per_s\": %.0f, "
           "\"mb_per_s\": %.1f, \"client_cpu_s\": %.2f, \"acks\": %d, \"version\": %d, \"in_flight\": %d, \"partitions\": %d, \"connections\": %d}\n",
           (unsigned long)answered_total, messages, request_size, wall, messages / wall, answered_total / wall,
           answered_total * (double)request_size / wall / 1e6, cpu, acks, version, in_flight, partitions, connection_count);
    return 0;
}
