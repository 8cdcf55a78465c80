/* A minimal mirror: what a fetch brings goes to another broker of ours as it is, in one conditional append.
 *
 *   cc -O2 -o raw_copy raw_copy.c
 *   raw_copy FROM_PORT TO_PORT TOPIC MAX_BYTES WARM_TO TO
 *
 * The yardstick of a mirror between two brokers of ours: partition 0, from offset 0 to TO, of which all before WARM_TO is copied before
 * the start signal. The next fetch is under way while an append is; one append at a time, acks=all, Produce version 9 with the tag that
 * makes it conditional. Reads batch headers (fetching.h), counts nothing by time, keeps no books. */
#define _GNU_SOURCE
#include "fetching.h"

#include <sys/uio.h>

static char front[512], back[32];
static size_t front_size, back_size;
static uint32_t appended;

static void put_unsigned(char **at, uint64_t value) {
    for (; value > 127; value >>= 7) put(at, value | 128, 1);
    put(at, value, 1);
}

static void make_append(size_t bytes) {
    char *at = front + 4, *size = front;
    put(&at, 0, 2), put(&at, 9, 2), put(&at, appended, 4), put(&at, 3, 2), memcpy(at, "raw", 3), at += 3, put(&at, 0, 1);
    put(&at, 0, 1), put(&at, -1, 2), put(&at, 30000, 4); /* no transaction, acks, timeout */
    put(&at, 2, 1), put(&at, strlen(topic) + 1, 1), memcpy(at, topic, strlen(topic)), at += strlen(topic);
    put(&at, 2, 1), put(&at, 0, 4), put_unsigned(&at, bytes + 1);
    front_size = at - front;
    at = back;
    put(&at, 1, 1), put_unsigned(&at, 28009), put(&at, 8, 1), put(&at, 0, 8); /* the source's log begins at 0 */
    put(&at, 0, 2);
    back_size = at - back;
    put(&size, front_size + bytes + back_size - 4, 4);
}

static void append(int fd) {
    make_append(block_size);
    struct iovec parts[3] = {{front, front_size}, {(char *)block, block_size}, {back, back_size}}, *part = parts;
    for (struct msghdr message = {.msg_iov = part, .msg_iovlen = 3}; message.msg_iovlen > 0;) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) fail("send: %s", strerror(errno));
        while (message.msg_iovlen > 0 && (size_t)sent >= message.msg_iov->iov_len)
            sent -= message.msg_iov->iov_len, message.msg_iov++, message.msg_iovlen--;
        if (message.msg_iovlen > 0) message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + sent, message.msg_iov->iov_len -= sent;
    }
}

static void confirm(int fd) {
    char told[1024];
    receive(fd, told, 4);
    size_t size = get(told, 4);
    if (size > sizeof told) fail("an answer of %zu bytes to an append", size);
    receive(fd, told, size);
    const char *at = told + 5; /* correlation id, tags */
    if ((uint32_t)get(told, 4) != appended) fail("answer %lu came where %u was due", (unsigned long)get(told, 4), appended);
    appended++;
    at += 1, at += get_unsigned(&at) - 1, at += 1 + 4;
    int error = (int16_t)get(at, 2);
    if (error) fail("error %d for append %u", error, appended - 1);
}

/* Copy [from, to), or more where the last fetch brings more; return where it ended. */
static int64_t copy(int source, int destination, int64_t from, int64_t to) {
    int is_under_way = 0;
    ask(source, from);
    while (from < to) {
        int64_t reached = take(source);
        if (reached == from) fail("%s ends at %ld, before %ld", topic, (long)from, (long)to);
        from = reached;
        if (from < to) ask(source, from);
        if (is_under_way) confirm(destination);
        append(destination), is_under_way = 1;
    }
    if (is_under_way) confirm(destination);
    return from;
}

int main(int count, char **words) {
    if (count != 7) fail("usage: %s FROM_PORT TO_PORT TOPIC MAX_BYTES WARM_TO TO", words[0]);
    topic = words[3], max_bytes = atoi(words[4]), in_flight = 1;
    int64_t warm_to = atoll(words[5]), to = atoll(words[6]);
    if (strlen(topic) > 120 || max_bytes < 1) fail("MAX_BYTES is above 0, TOPIC has at most 120 letters");
    answer_room = (size_t)max_bytes + SLACK;
    if (!(answer = malloc(answer_room))) fail("no memory for %zu bytes", answer_room);
    make_request();
    int source = connect_to("127.0.0.1", words[1]), destination = connect_to("127.0.0.1", words[2]);
    int64_t began = copy(source, destination, 0, warm_to);
    if (began >= to) fail("%s: nothing is left to copy after %ld", topic, (long)began);
    wait_for_go();
    batches = records = 0;
    int64_t ended = copy(source, destination, began, to);
    double wall = now_s() - driver_start.wall;
    char more[160];
    snprintf(more, sizeof more, ", \"batches\": %lld, \"appends\": %u, \"mb_per_s\": %.1f", batches, appended, (ended - began) / wall / 1e6);
    report(records, more);
    return 0;
}
