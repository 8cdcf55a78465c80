/* The yardstick for producing: a child sends COUNT blocks of BLOCK bytes over loopback TCP, this process receives each whole and
 * appends it to FILE with one write. No question, no answer, no check.
 *
 * usage: bare_receive FILE BLOCK COUNT */
#include "driver.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words) {
    if (count != 4) fail("usage: %s FILE BLOCK COUNT", words[0]);
    size_t size = (size_t)atol(words[2]);
    long long blocks = atoll(words[3]);
    int file = open(words[1], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600), one = 1;
    char *block = malloc(size), more[64];
    memset(block, 'm', size);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), sender = socket(AF_INET, SOCK_STREAM, 0);
    if (file < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1)) fail("cannot listen or write %s", words[1]);
    getsockname(listener, (struct sockaddr *)&address, &length);
    if (connect(sender, (struct sockaddr *)&address, length)) fail("cannot connect");
    int receiver = accept(listener, NULL, NULL);
    setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    wait_for_go();
    int child = fork();
    if (child == 0) {
        for (long long i = 0; i < blocks; i++)
            for (size_t at = 0; at < size;) {
                ssize_t sent = send(sender, block + at, size - at, MSG_NOSIGNAL);
                if (sent <= 0) _exit(1);
                at += (size_t)sent;
            }
        _exit(0);
    }
    close(sender);
    for (long long i = 0; i < blocks; i++) {
        for (size_t at = 0; at < size;) {
            ssize_t got = recv(receiver, block + at, size - at, 0);
            if (got <= 0) fail("the sender went away after %lld blocks", i);
            at += (size_t)got;
        }
        if (write(file, block, size) != (ssize_t)size) fail("cannot write %s", words[1]);
    }
    double wall = now_s() - driver_start.wall;
    snprintf(more, sizeof more, ", \"mb_per_s\": %.1f", (double)blocks * (double)size / wall / 1e6);
    report(blocks, more);
    waitpid(child, NULL, 0);
    unlink(words[1]);
    return 0;
}
