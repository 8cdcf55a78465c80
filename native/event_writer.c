/* headrace_native.EventWriter: encodes plain events in one pass. What it does not take it refuses with an exception, whose kind does
 * not matter: headrace then decides with fastavro. */
#include "event_writer.h"

typedef struct {
    PyObject_HEAD
    Program program;
    PyObject *time_name;  /* of the event time's field */
} EventWriter;

static int write_event(EventWriter *self, Writing *writing, PyObject *event, PyObject *timestamp_ms) {
    if (!PyDict_CheckExact(event)) {
        return NOT_PLAIN;
    }
    const Record *record = &self->program.records[0];
    Py_ssize_t found = 0;
    for (Py_ssize_t at = 0; at < record->count; at++) {
        const Field *field = &record->fields[at];
        int result;
        if (field->role == ROLE_TIME) {
            result = write_long(writing->out, timestamp_ms, INT64_MIN, INT64_MAX);
        } else {
            result = write_field(writing, field, event, &found);
        }
        if (result != WRITTEN) {
            return result;
        }
    }
    if (found == PyDict_Size(event)) {
        return WRITTEN;
    }
    int has_time = PyDict_Contains(event, self->time_name);
    if (has_time < 0) {
        return FAILED;
    }
    return found + has_time == PyDict_Size(event) ? WRITTEN : NOT_PLAIN;
}

static PyObject *event_writer_encode(EventWriter *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || self->program.records == NULL) {
        PyErr_SetString(PyExc_TypeError, "encode takes an event and its time in ms, of a writer that was made");
        return NULL;
    }
    Buffer out;
    buffer_init(&out);
    Writing writing = {&self->program, &out};
    PyObject *encoded = NULL;
    int result = write_event(self, &writing, arguments[0], arguments[1]);
    if (result == WRITTEN) {
        encoded = buffer_bytes(&out);
    } else if (result == NOT_PLAIN) {
        PyErr_SetString(PyExc_ValueError, "not a plain event");
    }
    buffer_free(&out);
    return encoded;
}

/* EventWriter(records, server bytes or None, name of the server's field, name of the event time's field) */
static int event_writer_init(PyObject *object, PyObject *arguments, PyObject *keywords) {
    EventWriter *self = (EventWriter *)object;
    PyObject *records, *server, *server_name, *time_name;
    static char *names[] = {"records", "server", "server_name", "time_name", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!OUU", names, &PyTuple_Type, &records, &server, &server_name, &time_name)) {
        return -1;
    }
    if (self->program.records != NULL) {
        PyErr_SetString(PyExc_TypeError, "an event writer is made once");
        return -1;
    }
    if (server != Py_None && !PyBytes_Check(server)) {
        PyErr_SetString(PyExc_TypeError, "the server is bytes or None");
        return -1;
    }
    if (program_read(&self->program, records) < 0) {
        program_clear(&self->program);
        return -1;
    }
    self->time_name = Py_NewRef(time_name);
    Record *event = &self->program.records[0];
    for (Py_ssize_t at = 0; at < event->count; at++) {
        Field *field = &event->fields[at];
        if (PyUnicode_Compare(field->name, time_name) == 0) {
            field->role = ROLE_TIME;
        } else if (PyUnicode_Compare(field->name, server_name) == 0) {
            field->role = ROLE_SERVER;
            Py_XDECREF(field->fallback);
            field->fallback = server == Py_None ? NULL : Py_NewRef(server);
        }
    }
    return 0;
}

static void event_writer_dealloc(PyObject *object) {
    EventWriter *self = (EventWriter *)object;
    PyTypeObject *type = Py_TYPE(object);
    program_clear(&self->program);
    Py_XDECREF(self->time_name);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef event_writer_methods[] = {
    {"encode", (PyCFunction)(void (*)(void))event_writer_encode, METH_FASTCALL, "Return the Avro body of (event, event time in ms)."},
    {NULL},
};

static PyType_Slot event_writer_slots[] = {
    {Py_tp_doc, "Encodes plain events of one schema."},
    {Py_tp_init, event_writer_init},
    {Py_tp_dealloc, event_writer_dealloc},
    {Py_tp_methods, event_writer_methods},
    {0, NULL},
};

static PyType_Spec event_writer_spec = {
    .name = "headrace_native.EventWriter",
    .basicsize = sizeof(EventWriter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = event_writer_slots,
};

PyObject *event_writer_type(PyObject *module) { return PyType_FromModuleAndSpec(module, &event_writer_spec, NULL); }
