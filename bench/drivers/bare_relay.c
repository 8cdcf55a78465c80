/* The yardstick for latency: what threads, wake-ups and sockets take by themselves, with a broker that only passes on.
 *
 * usage: bare_relay PER_S SECONDS SIZE
 * As in rdkafka_latency, a tick each millisecond makes its share of messages. From there the way is that of a Kafka client's threads:
 * a thread that is woken by a pipe sends what there is; a child process receives it, hands it to a reader that has asked, then
 * acknowledges it; a thread receives it, asks for more, and wakes the one that takes the time. Nothing is parsed, checked or
 * written. The first second is not counted. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "latency.h"

#define ASKED 88 /* bytes of a fetch of one partition, and of an acknowledgement */
#define ANSWERED 52
#define ROOM (1 << 20)

static size_t size;
static int to_sender[2], producer, consumer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static char made[ROOM], come[ROOM];
static size_t made_bytes, come_bytes;

static void put(int fd, const void *data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
        ssize_t sent = send(fd, (const char *)data + at, bytes - at, MSG_NOSIGNAL);
        if (sent <= 0) _exit(1);
        at += (size_t)sent;
    }
}

static int take(int fd, void *data, size_t bytes) { return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes; }

static int listening(struct sockaddr_in *address) {
    socklen_t length = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (struct sockaddr *)address, length) || listen(fd, 2)) fail("cannot listen");
    getsockname(fd, (struct sockaddr *)address, &length);
    return fd;
}

static int without_delay(int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int connected(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address)) fail("cannot connect");
    return without_delay(fd);
}

/* The child: until the producer goes. */
static void relay(int from, int to) {
    static char held[ROOM];
    char asked[ASKED], answer[ANSWERED] = {0};
    uint32_t bytes = 0;
    int has_asked = 0, poller = epoll_create1(0);
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = i ? to : from};
        epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event);
    }
    for (;;) {
        struct epoll_event events[2];
        int found = epoll_wait(poller, events, 2, -1), brought = 0;
        for (int i = 0; i < found; i++) {
            if (events[i].data.fd == to) {
                if (!take(to, asked, sizeof asked)) _exit(0);
                has_asked = 1;
                continue;
            }
            ssize_t received = recv(from, held + 4 + bytes, sizeof held - 4 - bytes, 0);
            if (received <= 0) _exit(0);
            bytes += (uint32_t)received, brought = 1;
        }
        if (has_asked && bytes) {
            memcpy(held, &bytes, 4);
            put(to, held, bytes + 4);
            bytes = 0, has_asked = 0;
        }
        if (brought) put(from, answer, sizeof answer);
    }
}

static void *send_on(void *unused) {
    (void)unused;
    static char batch[ROOM];
    struct pollfd either[2] = {{.fd = to_sender[0], .events = POLLIN}, {.fd = producer, .events = POLLIN}};
    char seen[4096];
    for (;;) {
        poll(either, 2, -1);
        if (either[1].revents && recv(producer, seen, sizeof seen, 0) <= 0) return NULL;
        if (!either[0].revents) continue;
        if (read(to_sender[0], seen, sizeof seen) <= 0) return NULL;
        pthread_mutex_lock(&lock);
        size_t bytes = made_bytes;
        memcpy(batch, made, bytes);
        made_bytes = 0;
        pthread_mutex_unlock(&lock);
        put(producer, batch, bytes);
    }
}

static void *receive(void *unused) {
    (void)unused;
    static char batch[ROOM];
    char asked[ASKED] = {0};
    for (uint32_t bytes;;) {
        put(consumer, asked, sizeof asked);
        if (!take(consumer, &bytes, 4) || !take(consumer, batch, bytes)) return NULL;
        pthread_mutex_lock(&lock);
        if (come_bytes + bytes > sizeof come) fail("nobody takes what comes");
        memcpy(come + come_bytes, batch, bytes);
        come_bytes += bytes;
        pthread_cond_signal(&arrived);
        pthread_mutex_unlock(&lock);
    }
}

static void *note(void *unused) {
    (void)unused;
    static char batch[2 * ROOM]; /* what came, behind the beginning of a message that came before */
    size_t bytes = 0;
    while (got < wanted + warm) {
        pthread_mutex_lock(&lock);
        while (!come_bytes) pthread_cond_wait(&arrived, &lock);
        memcpy(batch + bytes, come, come_bytes);
        bytes += come_bytes, come_bytes = 0;
        pthread_mutex_unlock(&lock);
        double now = now_s();
        size_t at = 0;
        for (; at + size <= bytes; at += size) message_came(now, batch + at);
        memmove(batch, batch + at, bytes -= at);
    }
    return NULL;
}

int main(int count, char **words) {
    if (count != 4) fail("usage: %s PER_S SECONDS SIZE", words[0]);
    long long per_s = atoll(words[1]), share = per_s / 1000;
    size = (size_t)atol(words[3]);
    expect(per_s, atoll(words[2]));
    if (share * (long long)size > ROOM / 8 || size < sizeof(double)) fail("no room for so many bytes a millisecond");
    struct sockaddr_in address;
    int listener = listening(&address);
    producer = connected(&address), consumer = connected(&address);
    int from = without_delay(accept(listener, NULL, NULL)), to = without_delay(accept(listener, NULL, NULL));
    int child = fork();
    if (child == 0) {
        close(producer), close(consumer);
        relay(from, to);
    }
    close(from), close(to);
    char payload[size];
    memset(payload, 'm', size);
    pthread_t threads[3];
    if (pipe(to_sender)) fail("no pipe");
    pthread_create(&threads[0], NULL, send_on, NULL);
    pthread_create(&threads[1], NULL, receive, NULL);
    pthread_create(&threads[2], NULL, note, NULL);
    wait_for_go();

    struct timespec tick;
    clock_gettime(CLOCK_MONOTONIC, &tick);
    for (long long sent = 0; sent < wanted + warm; sent += share) {
        next_tick(&tick, payload);
        pthread_mutex_lock(&lock);
        if (made_bytes + (size_t)share * size > sizeof made) fail("nobody sends what is made");
        for (long long i = 0; i < share; i++, made_bytes += size) memcpy(made + made_bytes, payload, size);
        pthread_mutex_unlock(&lock);
        if (write(to_sender[1], "x", 1) != 1) fail("cannot wake the sender");
    }
    pthread_join(threads[2], NULL);
    shutdown(producer, SHUT_RDWR), shutdown(consumer, SHUT_RDWR);
    waitpid(child, NULL, 0);
    report_latency("");
    return 0;
}
