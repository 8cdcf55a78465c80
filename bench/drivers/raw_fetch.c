/* A minimal consumer: Kafka Fetch requests for one partition; of the responses it reads the batch headers only.
 *
 *   cc -O2 -o raw_fetch raw_fetch.c
 *   raw_fetch HOST PORT TOPIC PARTITION MAX_BYTES IN_FLIGHT SECONDS [FROM_OFFSET]
 *   raw_fetch --bare FILE CHUNK_BYTES SECONDS
 *
 * Measures a server's ceiling in fetching. Before the start signal one pass over the log from FROM_OFFSET (0) on, one fetch after the
 * other, learns the offsets at which fetches of MAX_BYTES fall (and warms the page cache); the measured part asks at those again
 * and again, IN_FLIGHT requests ahead (1: the next one is sent when an answer is whole). Fetch version 12. Every answer is checked:
 * correlation ids in order, error 0, base offset, whole batches; batches and records are counted from headers, so any Kafka broker
 * can be asked. `--bare` is the yardstick: a child sends the same file by sendfile(2) in chunks over loopback TCP, without a question,
 * to the same receiving code. Waits for the start signal and prints one JSON object as every driver does (driver.h). */
#define _GNU_SOURCE
#include "big_endian.h"
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HEADER = 61, SLACK = 1 << 16, MOST_IN_FLIGHT = 1024 };

static const char *topic;
static int partition, max_bytes, in_flight;
static char request[512], *answer;
static size_t request_size, offset_at, answer_room;
static uint32_t asked, answered;
static int64_t asked_at[MOST_IN_FLIGHT]; /* fetch offsets under way, by correlation id */
static long long batches, records, payload, received;
static double seconds;

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

static void say(long long count, long long bytes, const char *also) {
    char more[320];
    double wall = now_s() - driver_start.wall;
    snprintf(more, sizeof more, ", \"fetches\": %u, \"batches\": %lld, \"bytes\": %lld, \"mb_per_s\": %.1f, \"in_flight\": %d, \"max_bytes\": %d%s",
             answered, batches, bytes, bytes / wall / 1e6, in_flight, max_bytes, also);
    report(count, more);
}

static int fetch(char **words, int64_t offset) {
    topic = words[3], partition = atoi(words[4]), max_bytes = atoi(words[5]), in_flight = atoi(words[6]), seconds = atof(words[7]);
    if (strlen(topic) > 120 || max_bytes < 1 || in_flight < 1 || in_flight > MOST_IN_FLIGHT || seconds <= 0)
        fail("MAX_BYTES, IN_FLIGHT (to %d) and SECONDS are above 0, TOPIC has at most 120 letters", MOST_IN_FLIGHT);
    answer_room = (size_t)max_bytes + SLACK;
    answer = malloc(answer_room);
    make_request();
    int fd = connect_to(words[1], words[2]);
    size_t known = 0, room = 1024;
    int64_t *offsets = malloc(room * sizeof *offsets);
    for (;;) {
        ask(fd, offset);
        int64_t next = take(fd);
        if (next == offset) break;
        if (known == room) offsets = realloc(offsets, (room *= 2) * sizeof *offsets);
        offsets[known++] = offset;
        offset = next;
    }
    if (known == 0) fail("%s-%d is empty", topic, partition);
    wait_for_go();
    asked = answered = 0, batches = records = payload = 0;
    size_t at = 0;
    for (int may_ask = 1; may_ask || answered < asked;) {
        while (may_ask && asked - answered < (uint32_t)in_flight) ask(fd, offsets[at]), at = (at + 1) % known;
        take(fd);
        may_ask = now_s() - driver_start.wall < seconds;
    }
    say(records, payload, "");
    return 0;
}

static int bare(char **words) {
    max_bytes = atoi(words[3]), seconds = atof(words[4]);
    int file = open(words[2], O_RDONLY), pair[2];
    struct stat facts;
    if (file < 0 || fstat(file, &facts) || facts.st_size < max_bytes) fail("%s: not a file of at least %d bytes", words[2], max_bytes);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&address, &size))
        fail("listening: %s", strerror(errno));
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(pair[0], (struct sockaddr *)&address, size)) fail("connecting: %s", strerror(errno));
    pair[1] = accept(listener, NULL, NULL);
    /* Not in step with the file's pages: where source and target agree modulo 4096, some processors copy at a third of the speed.
     * Behind an answer's head they hardly ever do. */
    answer = malloc(max_bytes + 4096), answer += 1024;
    wait_for_go();
    int child = fork();
    if (child == 0) {
        for (off_t at = 0;; at = at + max_bytes > facts.st_size - max_bytes ? 0 : at + max_bytes)
            for (off_t from = at; from < at + max_bytes;)
                if (sendfile(pair[1], file, &from, at + max_bytes - from) <= 0) _exit(0);
    }
    close(pair[1]);
    long long chunks = 0;
    for (; now_s() - driver_start.wall < seconds; chunks++) receive(pair[0], answer, max_bytes);
    payload = chunks * max_bytes;
    kill(child, SIGKILL);
    struct rusage used;
    wait4(child, NULL, 0, &used);
    char more[64];
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    snprintf(more, sizeof more, ", \"sender_cpu_s_per_gb\": %.4f", cpu / ((double)payload / 1e9));
    say(chunks, payload, more);
    return 0;
}

int main(int count, char **words) {
    if (count == 5 && !strcmp(words[1], "--bare")) return bare(words);
    if (count != 8 && count != 9) fail("usage: %s HOST PORT TOPIC PARTITION MAX_BYTES IN_FLIGHT SECONDS [FROM_OFFSET] | --bare FILE CHUNK_BYTES SECONDS", words[0]);
    return fetch(words, count == 9 ? atoll(words[8]) : 0);
}
