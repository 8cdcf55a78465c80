/* Events out of a journal's segment; platform/sdk/journal/files/layout.py has the layout, plain_records.py the same in Python. */
#include "crc32c.h"
#include "events.h"

#include <string.h>

#define HEAD 32
#define EVENT 1
#define REFUSED 2

static uint64_t little(const unsigned char *at, int size) {
    uint64_t value = 0;
    while (size-- > 0) {
        value = value << 8 | at[size];
    }
    return value;
}

/* take_journal(bytes, at, salt, most bytes, until) -> (records, end, largest number, last time in ms, [refused ones])
 *
 * Records one after another, up to the first thing that is none, or is no event and no refused one. */
PyObject *events_take_journal(Events *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 5 || !PyBytes_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "take_journal takes bytes, at, salt, most bytes and until");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(arguments[1]);
    unsigned long salt = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLong(arguments[2]);
    long long most = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[3]);
    long long until = PyErr_Occurred() ? 0 : PyLong_AsLongLong(arguments[4]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (at < 0 || salt > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a place is not negative, a salt has 32 bits");
        return NULL;
    }
    PyObject *refused = PyList_New(0);
    if (refused == NULL || events_keep(self, arguments[0]) < 0) {
        Py_XDECREF(refused);
        return NULL;
    }
    const unsigned char *data = (const unsigned char *)PyBytes_AsString(arguments[0]);
    Py_ssize_t size = PyBytes_Size(arguments[0]), found = 0;
    uint64_t largest = 0;
    int64_t last_ms = 0;
    while (at <= size - HEAD && at < until && most > 0) {
        const unsigned char *head = data + at;
        uint32_t length = (uint32_t)little(head + 4, 4);
        unsigned char kind = head[24];
        if (length < HEAD || (Py_ssize_t)length > size - at || (kind != EVENT && kind != REFUSED)
            || crc32c(head + 4, length - 4, (uint32_t)salt) != (uint32_t)little(head, 4)) {
            break;
        }
        int32_t key_size = (int32_t)(uint32_t)little(head + 28, 4);
        Event event = {.timestamp_ms = (int64_t)little(head + 16, 8), .body = head + HEAD};
        if (key_size >= 0) {
            if ((uint32_t)key_size > length - HEAD) {
                break;
            }
            event.key = head + HEAD;
            event.key_size = (uint32_t)key_size;
            event.body += key_size;
        }
        event.body_size = length - HEAD - event.key_size;
        if (kind == EVENT) {
            if (events_add(self, &event) < 0) {
                goto failed;
            }
        } else {
            PyObject *one = Py_BuildValue("Ly#y#", (long long)event.timestamp_ms, (const char *)event.key, (Py_ssize_t)event.key_size,
                                          (const char *)event.body, (Py_ssize_t)event.body_size);
            int added = one == NULL ? -1 : PyList_Append(refused, one);
            Py_XDECREF(one);
            if (added < 0) {
                goto failed;
            }
        }
        uint64_t number = little(head + 8, 8);
        largest = number > largest ? number : largest;
        last_ms = event.timestamp_ms;
        found++;
        most -= length;
        at += length + (8 - length % 8) % 8;
    }
    return Py_BuildValue("nnKLN", found, at, (unsigned long long)largest, (long long)last_ms, refused);
failed:
    Py_DECREF(refused);
    return NULL;
}
