/* headrace_native.Events: events of a source on their way into batches. They stand one after another in memory that does not move. */
#ifndef HEADRACE_EVENTS_H
#define HEADRACE_EVENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

typedef struct {
    int64_t timestamp_ms;
    const unsigned char *key; /* NULL: no key */
    const unsigned char *body;
    uint32_t key_size;
    uint32_t body_size;
} Event;

typedef struct {
    PyObject_HEAD
    PyObject *kept; /* a list of the bytes that the events point into */
    Event *events;
    size_t count;
    size_t room;
    unsigned char *free, *free_end; /* room in the last of the bytes that were made here */
} Events;

/* 0, or -1 with an exception. */
int events_keep(Events *self, PyObject *bytes);
int events_add(Events *self, const Event *event);
/* See to it that `size` bytes are free from `self->free` on, in memory that is kept. */
int events_reserve(Events *self, size_t size);

PyObject *events_take_journal(Events *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *events_take_access_log(Events *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *events_batches(Events *self, PyObject *const *arguments, Py_ssize_t count);
PyObject *events_framed(Events *self, PyObject *const *arguments, Py_ssize_t count);

PyObject *events_type(PyObject *module);

#endif
