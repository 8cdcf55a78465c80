/* The batches of a log as a reader meets them. Both functions take only what is beyond doubt: headrace's own Python walks on from
 * there, and decides and words everything else. Layouts: `headrace.wire.batch.batch_header`, `headrace.wire.batch.record`. */
#include "log_batches.h"

#include <stdint.h>

#include "crc32c.h"

enum { HEADER_SIZE = 61, PREFIX_SIZE = 12, CRC_COVERS_FROM = 21, HEADER_FIELDS = 12, LONGEST_VARINT = 10 };

static uint64_t big_endian(const unsigned char *at, int size) {
    uint64_t value = 0;
    for (int byte = 0; byte < size; byte++) {
        value = value << 8 | at[byte];
    }
    return value;
}

static int32_t int32_at(const unsigned char *at) { return (int32_t)(uint32_t)big_endian(at, 4); }

static int64_t int64_at(const unsigned char *at) { return (int64_t)big_endian(at, 8); }

/* The size of the batch at `at`, of which `left` bytes are here; 0 where it is not whole and sensible. */
static size_t whole_size(const unsigned char *at, size_t left) {
    if (left < HEADER_SIZE || at[16] != 2) {
        return 0;
    }
    int32_t length = int32_at(at + 8);
    if (length < HEADER_SIZE - PREFIX_SIZE || int32_at(at + 57) < 0 || int32_at(at + 23) < 0 || int64_at(at) < 0) {
        return 0;
    }
    size_t size = (size_t)length + PREFIX_SIZE;
    return size <= left ? size : 0;
}

/* Step over sound batches: their number. `*at` and `*expected` (the offset behind the last) go with them. Needs no interpreter. */
static size_t count_sound(const unsigned char *data, size_t end, size_t *at, int64_t *expected) {
    size_t found = 0;
    for (size_t size; (size = whole_size(data + *at, end - *at)) != 0; found++, *at += size) {
        const unsigned char *batch = data + *at;
        int64_t base_offset = int64_at(batch), delta = int32_at(batch + 23);
        if (base_offset > INT64_MAX - delta - 1 || (base_offset + delta + 1 <= *expected && *at != 0)) {
            break;
        }
        if (crc32c(batch + CRC_COVERS_FROM, size - CRC_COVERS_FROM, 0) != (uint32_t)big_endian(batch + 17, 4)) {
            break;
        }
        if (base_offset + delta + 1 > *expected) {
            *expected = base_offset + delta + 1;
        }
    }
    return found;
}

/* A header as `read_header` returns it: `made`(type, (fields)) is tuple.__new__. */
static PyObject *header_of(const unsigned char *at, size_t size, newfunc made, PyTypeObject *type) {
    const long long values[HEADER_FIELDS] = {
        int64_at(at),           (long long)size,   int32_at(at + 12),
        (long long)big_endian(at + 17, 4), (long long)big_endian(at + 21, 2), int32_at(at + 23),
        int64_at(at + 27),      int64_at(at + 35), int64_at(at + 43),
        (int16_t)(uint16_t)big_endian(at + 51, 2), int32_at(at + 53), int32_at(at + 57),
    };
    PyObject *fields = PyTuple_New(HEADER_FIELDS);
    for (int field = 0; fields != NULL && field < HEADER_FIELDS; field++) {
        PyObject *value = PyLong_FromLongLong(values[field]);
        if (value == NULL || PyTuple_SetItem(fields, field, value) < 0) {
            Py_CLEAR(fields);
        }
    }
    PyObject *arguments = fields == NULL ? NULL : PyTuple_Pack(1, fields);
    PyObject *header = arguments == NULL ? NULL : made(type, arguments, NULL);
    Py_XDECREF(arguments);
    Py_XDECREF(fields);
    return header;
}

static PyObject *part_of(PyObject *view, size_t from, size_t to) {
    PyObject *begin = PyLong_FromSize_t(from), *end = PyLong_FromSize_t(to), *part = NULL;
    PyObject *slice = begin == NULL || end == NULL ? NULL : PySlice_New(begin, end, NULL);
    if (slice != NULL) {
        part = PyObject_GetItem(view, slice);
    }
    Py_XDECREF(slice);
    Py_XDECREF(begin);
    Py_XDECREF(end);
    return part;
}

/* Append (header, part of the view) for `count` batches from byte `at` on. 0, or -1 with an error. */
static int put_batches(PyObject *view, const Py_buffer *held, size_t at, size_t count, PyTypeObject *type, PyObject *batches) {
    newfunc made = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    for (; count > 0; count--) {
        const unsigned char *batch = (const unsigned char *)held->buf + at;
        size_t size = whole_size(batch, (size_t)held->len - at);
        if (size == 0) { /* somebody writes to it meanwhile */
            PyErr_SetString(PyExc_ValueError, "the bytes of these batches change while they are read");
            return -1;
        }
        PyObject *header = header_of(batch, size, made, type);
        PyObject *part = header == NULL ? NULL : part_of(view, at, at + size);
        PyObject *pair = part == NULL ? NULL : PyTuple_Pack(2, header, part);
        int added = pair == NULL ? -1 : PyList_Append(batches, pair);
        Py_XDECREF(pair);
        Py_XDECREF(part);
        Py_XDECREF(header);
        if (added < 0) {
            return -1;
        }
        at += size;
    }
    return 0;
}

/* sound_batches(view, at, expected, header type, batches) -> (at, expected): appends (header, its bytes) of each batch from byte `at` on
 * up to the first that is cut, damaged, or ends before offset `expected`; tells where that begins, and the offset behind the last. */
PyObject *sound_batches(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 5 || !PyMemoryView_Check(arguments[0]) || !PyType_Check(arguments[3]) || !PyList_Check(arguments[4]) ||
        !PyType_IsSubtype((PyTypeObject *)arguments[3], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "sound_batches(view: memoryview, at: int, expected: int, header: a type of tuples, batches: list)");
        return NULL;
    }
    Py_ssize_t begin = PyLong_AsSsize_t(arguments[1]);
    int64_t expected = begin == -1 && PyErr_Occurred() ? 0 : (int64_t)PyLong_AsLongLong(arguments[2]);
    Py_buffer held;
    if (PyErr_Occurred() || PyObject_GetBuffer(arguments[0], &held, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    if (begin < 0 || begin > held.len) {
        PyBuffer_Release(&held);
        PyErr_SetString(PyExc_ValueError, "no such byte in this view");
        return NULL;
    }
    size_t at = (size_t)begin, found;
    Py_BEGIN_ALLOW_THREADS
    found = count_sound(held.buf, (size_t)held.len, &at, &expected);
    Py_END_ALLOW_THREADS
    int put = put_batches(arguments[0], &held, (size_t)begin, found, (PyTypeObject *)arguments[3], arguments[4]);
    PyBuffer_Release(&held);
    return put < 0 ? NULL : Py_BuildValue("nL", (Py_ssize_t)at, (long long)expected);
}

typedef struct {
    const unsigned char *at, *end;
} Bytes;

/* A varint of at most 64 bits, its sign in the lowest. 0, or -1: cut or too long. */
static int take_varint(Bytes *from, uint64_t *value) {
    uint64_t read = 0;
    for (int index = 0; index < LONGEST_VARINT && from->at < from->end; index++) {
        unsigned char byte = *from->at++;
        read |= (uint64_t)(byte & 0x7F) << (7 * index);
        if (byte < 0x80) {
            *value = read;
            return 0;
        }
    }
    return -1;
}

/* The next record's timestamp. 0, or -1 where anything is odd about the record or its time. */
static int take_timestamp(Bytes *records, int64_t base_ms, int64_t *timestamp_ms) {
    uint64_t raw;
    if (take_varint(records, &raw) < 0 || raw & 1 || raw >> 1 > (uint64_t)(records->end - records->at) || raw >> 1 < 2) {
        return -1;
    }
    Bytes record = {records->at + 1, records->at + (raw >> 1)}; /* behind the record's own attributes */
    records->at = record.end;
    if (take_varint(&record, &raw) < 0) {
        return -1;
    }
    int64_t delta = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return __builtin_add_overflow(base_ms, delta, timestamp_ms) ? -1 : 0;
}

typedef struct {
    int64_t count, base_offset, base_ms, window_ms;
} Batch;

static int put_run(PyObject *runs, int64_t window, int64_t first, int64_t count) {
    PyObject *run = Py_BuildValue("LLL", (long long)window, (long long)first, (long long)count);
    int added = run == NULL ? -1 : PyList_Append(runs, run);
    Py_XDECREF(run);
    return added;
}

/* 1: all records are in `runs`; 0: something is odd about them; -1 with an error. */
static int put_runs(Bytes records, const Batch *batch, PyObject *runs) {
    int64_t window = 0, timestamp_ms, first = 0;
    for (int64_t index = 0; index < batch->count; index++) {
        if (take_timestamp(&records, batch->base_ms, &timestamp_ms) < 0) {
            return 0;
        }
        /* As `window_start_ms`: what lies before 1970 is one window. A record of the same window as before it takes no division. */
        if (index > first && timestamp_ms >= window && (window >= 0 ? timestamp_ms - window < batch->window_ms : timestamp_ms < 0)) {
            continue;
        }
        int64_t start = timestamp_ms < 0 ? -batch->window_ms : timestamp_ms - timestamp_ms % batch->window_ms;
        if (index > first && start != window) {
            if (put_run(runs, window, batch->base_offset + first, index - first) < 0) {
                return -1;
            }
            first = index;
        }
        window = start;
    }
    if (records.at != records.end) {
        return 0;
    }
    return batch->count == 0 ? 1 : put_run(runs, window, batch->base_offset + first, batch->count - first) < 0 ? -1 : 1;
}

/* window_runs(bytes-like, where the records begin in it, their number, base offset, base timestamp in ms, window ms) -> [(window, first
 * offset, number)], neighbours of one window together; None where the bytes are not these records beyond doubt. */
PyObject *window_runs(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "window_runs(data: bytes-like, begin, count, base_offset, base_ms, window_ms: int)");
        return NULL;
    }
    long long numbers[5];
    for (int at = 0; at < 5; at++) {
        numbers[at] = PyLong_AsLongLong(arguments[at + 1]);
        if (PyErr_Occurred()) {
            return NULL;
        }
    }
    if (numbers[0] < 0 || numbers[1] < 0 || numbers[2] < 0 || numbers[4] <= 0) {
        PyErr_SetString(PyExc_ValueError, "begin, count and base offset from 0 on, and a window of at least 1 ms");
        return NULL;
    }
    Py_buffer held;
    if (PyObject_GetBuffer(arguments[0], &held, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const unsigned char *data = held.buf;
    PyObject *runs = PyList_New(0);
    int are_put = runs == NULL ? -1 : 0;
    if (runs != NULL && numbers[0] <= held.len && numbers[2] <= INT64_MAX - numbers[1]) {
        const Batch batch = {.count = numbers[1], .base_offset = numbers[2], .base_ms = numbers[3], .window_ms = numbers[4]};
        are_put = put_runs((Bytes){data + numbers[0], data + held.len}, &batch, runs);
    }
    PyBuffer_Release(&held);
    if (are_put == 1) {
        return runs;
    }
    Py_XDECREF(runs);
    return are_put == 0 ? Py_NewRef(Py_None) : NULL;
}
