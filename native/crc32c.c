/* CRC-32C: by the processor's instruction where it has one, else by tables. */
#include "crc32c.h"

#include <string.h>

static uint32_t crc_table[8][256];

static void make_table(void) {
    for (uint32_t at = 0; at < 256; at++) {
        uint32_t crc = at;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
        }
        crc_table[0][at] = crc;
    }
    for (uint32_t at = 0; at < 256; at++) {
        for (int row = 1; row < 8; row++) {
            uint32_t before = crc_table[row - 1][at];
            crc_table[row][at] = (before >> 8) ^ crc_table[0][before & 0xFF];
        }
    }
}

static uint64_t read_u64(const unsigned char *data) {
    uint64_t value = 0;
    for (int at = 7; at >= 0; at--) {
        value = value << 8 | data[at];
    }
    return value;
}

static uint32_t crc_by_table(uint32_t crc, const unsigned char *data, size_t size) {
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word = read_u64(data) ^ crc;
        crc = 0;
        for (int row = 0; row < 8; row++) {
            crc ^= crc_table[7 - row][(word >> (8 * row)) & 0xFF];
        }
    }
    while (size-- > 0) {
        crc = (crc >> 8) ^ crc_table[0][(crc ^ *data++) & 0xFF];
    }
    return crc;
}

static uint32_t (*crc_update)(uint32_t, const unsigned char *, size_t) = crc_by_table;

#if defined(__GNUC__) && defined(__x86_64__)
/* The instruction takes three cycles and may begin in each: three lanes side by side keep it busy. */
enum { LANE = 512 };

/* A register after LANE bytes of zero, by its bytes: what a lane adds to those behind it. */
static uint32_t shift_table[4][256];

static void make_shift_table(void) {
    static const unsigned char zeros[LANE];
    for (int row = 0; row < 4; row++) {
        for (uint32_t bit = 1; bit < 256; bit <<= 1) {
            shift_table[row][bit] = crc_by_table(bit << (8 * row), zeros, LANE);
        }
        for (uint32_t at = 1; at < 256; at++) { /* a CRC is linear: the lowest bit, and the others, which stand before */
            shift_table[row][at] = shift_table[row][at & -at] ^ shift_table[row][at & (at - 1)];
        }
    }
}

static uint32_t shifted(uint32_t crc) {
    return shift_table[0][crc & 0xFF] ^ shift_table[1][crc >> 8 & 0xFF] ^ shift_table[2][crc >> 16 & 0xFF] ^ shift_table[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc_by_lanes(uint32_t crc, const unsigned char *data) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t at = 0; at < LANE; at += 8) {
        uint64_t words[3];
        memcpy(&words[0], data + at, 8);
        memcpy(&words[1], data + LANE + at, 8);
        memcpy(&words[2], data + 2 * LANE + at, 8);
        first = __builtin_ia32_crc32di(first, words[0]);
        second = __builtin_ia32_crc32di(second, words[1]);
        third = __builtin_ia32_crc32di(third, words[2]);
    }
    return shifted(shifted((uint32_t)first) ^ (uint32_t)second) ^ (uint32_t)third;
}

__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t crc, const unsigned char *data, size_t size) {
    for (; size >= 3 * LANE; size -= 3 * LANE, data += 3 * LANE) {
        crc = crc_by_lanes(crc, data);
    }
    uint64_t wide = crc;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    while (size-- > 0) {
        crc = __builtin_ia32_crc32qi(crc, *data++);
    }
    return crc;
}
#endif

void crc32c_init(void) {
    make_table();
#if defined(__GNUC__) && defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        make_shift_table();
        crc_update = crc_by_instruction;
    }
#endif
}

uint32_t crc32c(const unsigned char *data, size_t size, uint32_t before) { return ~crc_update(~before, data, size); }
