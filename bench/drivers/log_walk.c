/* Walk the segment files given, in order, as record batches of version 2: count batches, records and bytes.
 *
 * usage: log_walk FILE...    prints {"batches": b, "records": r, "bytes": n}
 * Works on Apache Kafka's logs and on ours: both keep the batches of the wire as they are. A Kafka segment may be preallocated;
 * a zero length ends the file. */
#include <endian.h>

#include "driver.h"

int main(int count, char **words) {
    long long batches = 0, records = 0, bytes = 0;
    unsigned char head[61];
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(words[i], "rb");
        if (!file) fail("cannot open %s", words[i]);
        while (fread(head, 1, sizeof head, file) == sizeof head) {
            uint32_t length, in_batch;
            memcpy(&length, head + 8, 4);
            memcpy(&in_batch, head + 57, 4);
            length = be32toh(length);
            if (length < 49) break;
            if (head[16] != 2) fail("%s: a batch of magic %d after %lld batches", words[i], head[16], batches);
            if (fseek(file, (long)length - 49, SEEK_CUR)) fail("%s: cannot seek", words[i]);
            batches++;
            records += be32toh(in_batch);
            bytes += 12 + (long long)length;
        }
        fclose(file);
    }
    printf("{\"batches\": %lld, \"records\": %lld, \"bytes\": %lld}\n", batches, records, bytes);
    return 0;
}
