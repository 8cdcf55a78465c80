/* Records around encoded events: of a Kafka batch (v2), and of headrace's journal. */
#include "crc32c.h"
#include "event_writer.h"
#include "varint.h"

#define JOURNAL_HEAD 32
#define ALIGNMENT 8

/* The bytes of `value`, which is bytes or None. 0, or -1 with TypeError; then *data is NULL for None. */
static int bytes_of(PyObject *value, const char **data, Py_ssize_t *size) {
    *data = NULL;
    *size = -1;
    if (value == Py_None) {
        return 0;
    }
    if (!PyBytes_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "keys and values of records are bytes or None");
        return -1;
    }
    *data = PyBytes_AsString(value);
    *size = PyBytes_Size(value);
    return 0;
}

static size_t size_of_nullable(const char *data, Py_ssize_t size) {
    return data == NULL ? 1 : size_of_varint((uint64_t)size << 1) + (size_t)size;
}

/* frame_record(delta ms, offset delta, key or None, prefix, body) -> a record without headers, whose value is prefix + body */
PyObject *frame_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "frame_record takes delta ms, offset delta, key, prefix and body");
        return NULL;
    }
    int64_t delta_ms = PyLong_AsLongLong(arguments[0]);
    int64_t offset_delta = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[1]);
    const char *key, *prefix, *body;
    Py_ssize_t key_size, prefix_size, body_size;
    if (PyErr_Occurred() || bytes_of(arguments[2], &key, &key_size) < 0 || bytes_of(arguments[3], &prefix, &prefix_size) < 0
        || bytes_of(arguments[4], &body, &body_size) < 0) {
        return NULL;
    }
    if (prefix == NULL || body == NULL) {
        PyErr_SetString(PyExc_TypeError, "a record's prefix and body are bytes");
        return NULL;
    }
    uint64_t delta = zigzag(delta_ms), offset = zigzag(offset_delta), value_size = (uint64_t)prefix_size + (uint64_t)body_size;
    uint64_t size = 1 + size_of_varint(delta) + size_of_varint(offset) + size_of_nullable(key, key_size)
                    + size_of_varint(value_size << 1) + value_size + 1;
    if (size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a record has less than 2 GiB");
        return NULL;
    }
    PyObject *record = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(size_of_varint(size << 1) + size));
    if (record == NULL) {
        return NULL;
    }
    unsigned char *at = put_varint((unsigned char *)PyBytes_AsString(record), size << 1);
    *at++ = 0; /* attributes */
    at = put_varint(put_varint(at, delta), offset);
    if (key == NULL) {
        *at++ = 1;
    } else {
        at = put_data(put_varint(at, (uint64_t)key_size << 1), key, key_size);
    }
    at = put_varint(at, value_size << 1);
    at = put_data(put_data(at, prefix, prefix_size), body, body_size);
    *at = 0; /* headers */
    return record;
}

static unsigned char *put_little(unsigned char *at, uint64_t value, int size) {
    for (int byte = 0; byte < size; byte++) {
        *at++ = (unsigned char)(value >> (8 * byte));
    }
    return at;
}

/* journal_record(number, timestamp ms, kind, key or None, body, salt) -> the record with its padding; platform/sdk/journal/files/layout.py
 * has the layout. */
PyObject *journal_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "journal_record takes number, timestamp ms, kind, key, body and salt");
        return NULL;
    }
    unsigned long long number = PyLong_AsUnsignedLongLong(arguments[0]);
    long long timestamp_ms = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[1]);
    long kind = PyErr_Occurred() ? 0 : PyLong_AsLong(arguments[2]);
    unsigned long salt = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLong(arguments[5]);
    const char *key, *body;
    Py_ssize_t key_size, body_size;
    if (PyErr_Occurred() || bytes_of(arguments[3], &key, &key_size) < 0 || bytes_of(arguments[4], &body, &body_size) < 0) {
        return NULL;
    }
    if (body == NULL) {
        PyErr_SetString(PyExc_TypeError, "a body is bytes");
        return NULL;
    }
    /* No ValueError: to a journal's writer that means a full segment. */
    if (kind < 0 || kind > 255 || salt > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a kind is a byte, a salt has 32 bits");
        return NULL;
    }
    Py_ssize_t key_length = key == NULL ? 0 : key_size;
    if (key_length > INT32_MAX || body_size > INT32_MAX - JOURNAL_HEAD || key_length > INT32_MAX - JOURNAL_HEAD - body_size) {
        PyErr_SetString(PyExc_OverflowError, "a record of the journal has less than 2 GiB");
        return NULL;
    }
    Py_ssize_t length = JOURNAL_HEAD + key_length + body_size;
    Py_ssize_t padding = (ALIGNMENT - length % ALIGNMENT) % ALIGNMENT;
    PyObject *record = PyBytes_FromStringAndSize(NULL, length + padding);
    if (record == NULL) {
        return NULL;
    }
    unsigned char *data = (unsigned char *)PyBytes_AsString(record);
    unsigned char *at = put_little(data + 4, (uint64_t)length, 4);
    at = put_little(at, number, 8);
    at = put_little(at, (uint64_t)timestamp_ms, 8);
    at = put_little(at, (uint64_t)kind, 1);
    at = put_little(at, 0, 3);
    at = put_little(at, (uint64_t)(key == NULL ? -1 : key_size), 4);
    if (key != NULL) {
        memcpy(at, key, (size_t)key_size);
        at += key_size;
    }
    memcpy(at, body, (size_t)body_size);
    memset(data + length, 0, (size_t)padding);
    uint32_t crc = crc32c(data + 4, (size_t)length - 4, (uint32_t)salt);
    put_little(data, crc, 4);
    return record;
}
