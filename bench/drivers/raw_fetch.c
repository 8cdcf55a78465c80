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
#include "fetching.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

static double seconds;

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
