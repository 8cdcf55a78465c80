/* Varints written into memory that is large enough. */
#ifndef HEADRACE_VARINT_H
#define HEADRACE_VARINT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline size_t size_of_varint(uint64_t value) {
    size_t size = 1;
    while (value > 0x7F) {
        value >>= 7;
        size++;
    }
    return size;
}

static inline unsigned char *put_varint(unsigned char *at, uint64_t value) {
    while (value > 0x7F) {
        *at++ = (unsigned char)(value & 0x7F) | 0x80;
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    return at;
}

static inline unsigned char *put_data(unsigned char *at, const char *data, Py_ssize_t size) {
    memcpy(at, data, (size_t)size);
    return at + size;
}

#endif
