/* Bytes that grow: on the stack first, then on the heap. One per call, so that a call may be entered again. */
#ifndef HEADRACE_BUFFER_H
#define HEADRACE_BUFFER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define BUFFER_FIRST 2048

typedef struct {
    unsigned char *data;
    size_t used;
    size_t room;
    unsigned char first[BUFFER_FIRST];
} Buffer;

static inline void buffer_init(Buffer *out) {
    out->data = out->first;
    out->used = 0;
    out->room = BUFFER_FIRST;
}

static inline void buffer_free(Buffer *out) {
    if (out->data != out->first) {
        PyMem_Free(out->data);
    }
}

/* Make room for `more` bytes. 0, or -1 with MemoryError set. */
static inline int buffer_reserve(Buffer *out, size_t more) {
    if (out->room - out->used >= more) {
        return 0;
    }
    if (more > PY_SSIZE_T_MAX / 4 || out->used > PY_SSIZE_T_MAX / 4) {
        PyErr_NoMemory();
        return -1;
    }
    size_t room = 2 * (out->used + more);
    unsigned char *data = out->data == out->first ? PyMem_Malloc(room) : PyMem_Realloc(out->data, room);
    if (data == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (out->data == out->first) {
        memcpy(data, out->first, out->used);
    }
    out->data = data;
    out->room = room;
    return 0;
}

static inline int buffer_put(Buffer *out, const void *data, size_t size) {
    if (buffer_reserve(out, size) < 0) {
        return -1;
    }
    memcpy(out->data + out->used, data, size);
    out->used += size;
    return 0;
}

static inline int buffer_put_byte(Buffer *out, unsigned char byte) {
    if (buffer_reserve(out, 1) < 0) {
        return -1;
    }
    out->data[out->used++] = byte;
    return 0;
}

static inline int buffer_put_varint(Buffer *out, uint64_t value) {
    if (buffer_reserve(out, 10) < 0) {
        return -1;
    }
    unsigned char *at = out->data + out->used;
    while (value > 0x7F) {
        *at++ = (unsigned char)(value & 0x7F) | 0x80;
        value >>= 7;
    }
    *at++ = (unsigned char)value;
    out->used = (size_t)(at - out->data);
    return 0;
}

static inline uint64_t zigzag(int64_t value) { return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63); }

static inline int buffer_put_zigzag(Buffer *out, int64_t value) { return buffer_put_varint(out, zigzag(value)); }

static inline int buffer_put_sized(Buffer *out, const void *data, Py_ssize_t size) {
    return buffer_put_varint(out, (uint64_t)size << 1) < 0 ? -1 : buffer_put(out, data, (size_t)size);
}

static inline PyObject *buffer_bytes(const Buffer *out) {
    return PyBytes_FromStringAndSize((const char *)out->data, (Py_ssize_t)out->used);
}

#endif
