/* The yardstick for many partitions: append blocks of BLOCK bytes to FILES files in FOLDER in turn, one write each, COUNT in all,
 * and nothing else. The first block of each file, which opens it and finds its place on the disk, is not counted.
 *
 * usage: bare_append FOLDER FILES BLOCK COUNT */
#include <fcntl.h>
#include <unistd.h>

#include "driver.h"

int main(int count, char **words) {
    if (count != 5) fail("usage: %s FOLDER FILES BLOCK COUNT", words[0]);
    int files = atoi(words[2]), *file = calloc((size_t)files, sizeof *file);
    size_t size = (size_t)atol(words[3]);
    long long blocks = atoll(words[4]);
    char path[4096], *block = malloc(size);
    memset(block, 'm', size);
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/%d", words[1], i);
        file[i] = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file[i] < 0 || pwrite(file[i], block, size, 0) != (ssize_t)size) fail("cannot write %s", path);
    }
    wait_for_go();
    for (long long i = 0; i < blocks; i++)
        if (pwrite(file[i % files], block, size, (off_t)size * (1 + i / files)) != (ssize_t)size) fail("cannot write block %lld", i);
    report(blocks, "");
    return 0;
}
