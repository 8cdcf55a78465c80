/* headrace_native.Events: what is common to its ways in (a journal, an access log, one by one) and out (batches). */
#include "events.h"

#define FIRST_ROOM 256
#define ARENA_BYTES ((size_t)256 << 10)

int events_keep(Events *self, PyObject *bytes) {
    if (self->kept == NULL && (self->kept = PyList_New(0)) == NULL) {
        return -1;
    }
    return PyList_Append(self->kept, bytes);
}

int events_add(Events *self, const Event *event) {
    if (self->count == self->room) {
        size_t room = self->room ? 2 * self->room : FIRST_ROOM;
        Event *events = room > PY_SSIZE_T_MAX / sizeof(Event) ? NULL : PyMem_Realloc(self->events, room * sizeof(Event));
        if (events == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->events = events;
        self->room = room;
    }
    self->events[self->count++] = *event;
    return 0;
}

int events_reserve(Events *self, size_t size) {
    if ((size_t)(self->free_end - self->free) >= size) {
        return 0;
    }
    size_t room = size > ARENA_BYTES ? size : ARENA_BYTES;
    PyObject *arena = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)room);
    int kept = arena == NULL ? -1 : events_keep(self, arena);
    if (kept == 0) {
        self->free = (unsigned char *)PyBytes_AsString(arena);
        self->free_end = self->free + room;
    }
    Py_XDECREF(arena);
    return kept;
}

/* append(timestamp ms, key or None, body) */
static PyObject *events_append(Events *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3 || (arguments[1] != Py_None && !PyBytes_Check(arguments[1])) || !PyBytes_Check(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "append takes timestamp ms, key (bytes or None) and body (bytes)");
        return NULL;
    }
    Event event = {.timestamp_ms = PyLong_AsLongLong(arguments[0])};
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_ssize_t key_size = arguments[1] == Py_None ? 0 : PyBytes_Size(arguments[1]), body_size = PyBytes_Size(arguments[2]);
    if (key_size > INT32_MAX || body_size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a key and a body have less than 2 GiB");
        return NULL;
    }
    if ((arguments[1] != Py_None && events_keep(self, arguments[1]) < 0) || events_keep(self, arguments[2]) < 0) {
        return NULL;
    }
    event.key = arguments[1] == Py_None ? NULL : (const unsigned char *)PyBytes_AsString(arguments[1]);
    event.key_size = (uint32_t)key_size;
    event.body = (const unsigned char *)PyBytes_AsString(arguments[2]);
    event.body_size = (uint32_t)body_size;
    if (events_add(self, &event) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static Py_ssize_t events_length(Events *self) { return (Py_ssize_t)self->count; }

static PyObject *events_item(Events *self, Py_ssize_t at) {
    if (at < 0 || (size_t)at >= self->count) {
        PyErr_SetString(PyExc_IndexError, "no such event");
        return NULL;
    }
    const Event *event = &self->events[at];
    const char *key = (const char *)event->key;
    return Py_BuildValue("Ly#y#", (long long)event->timestamp_ms, key, key == NULL ? 0 : (Py_ssize_t)event->key_size,
                         (const char *)event->body, (Py_ssize_t)event->body_size);
}

static void events_dealloc(PyObject *object) {
    Events *self = (Events *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(self->kept);
    PyMem_Free(self->events);
    PyObject_Free(object);
    Py_DECREF(type);
}

#define METHOD(name, function, words) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, words}

static PyMethodDef events_methods[] = {
    METHOD("append", events_append, "Add (timestamp ms, key or None, body)."),
    METHOD("take_journal", events_take_journal, "Add the events of (segment bytes, at, salt, most bytes, until)."),
    METHOD("take_access_log", events_take_access_log, "Add the lines of (lines, from, server as an Avro string)."),
    METHOD("batches", events_batches, "Return the batches for (window ms, partition count, batch bytes, overhead bytes)."),
    METHOD("framed", events_framed, "Return the records of (prefix, picks)."),
    {NULL},
};

static PyType_Slot events_slots[] = {
    {Py_tp_doc, "Events of a source on their way into batches."},
    {Py_tp_dealloc, events_dealloc},
    {Py_tp_methods, events_methods},
    {Py_sq_length, events_length},
    {Py_sq_item, events_item},
    {0, NULL},
};

static PyType_Spec events_spec = {
    .name = "headrace_native.Events",
    .basicsize = sizeof(Events),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = events_slots,
};

PyObject *events_type(PyObject *module) { return PyType_FromModuleAndSpec(module, &events_spec, NULL); }
