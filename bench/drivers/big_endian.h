/* Numbers as Kafka's protocol writes them. */
#include <stdint.h>

static inline void put(char **at, uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) *(*at)++ = (char)(value >> shift);
}

static inline uint64_t get(const char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | (uint8_t)at[i];
    return value;
}
