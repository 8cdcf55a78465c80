/* headrace_native: the hot paths of headrace's SDK, agent, load and readers of logs. */
#include "avro_columns.h"
#include "flat_event.h"
#include "crc32c.h"
#include "event_writer.h"
#include "events.h"
#include "log_batches.h"

/* The version of these functions' parameters: headrace uses no other than it knows. */
#define SHAPE 4

static PyMethodDef methods[] = {
    {"frame_record", (PyCFunction)(void (*)(void))frame_record, METH_FASTCALL, "Return a record of a Kafka batch, without headers."},
    {"journal_record", (PyCFunction)(void (*)(void))journal_record, METH_FASTCALL, "Return a record of a journal."},
    {"avro_columns", (PyCFunction)(void (*)(void))avro_columns, METH_FASTCALL, "Return the columns of Avro bodies."},
    {"flat_event", (PyCFunction)(void (*)(void))flat_event, METH_FASTCALL, "Return the instance of a class that an Avro body is."},
    {"sound_batches", (PyCFunction)(void (*)(void))sound_batches, METH_FASTCALL, "Take sound batches from bytes of a log."},
    {"window_runs", (PyCFunction)(void (*)(void))window_runs, METH_FASTCALL, "Return the windows of a batch's records."},
    {NULL},
};

/* Takes over the reference to `type`, which may be NULL. */
static int add_type(PyObject *module, const char *name, PyObject *type) {
    if (type == NULL) {
        return -1;
    }
    int added = PyModule_AddObjectRef(module, name, type);
    Py_DECREF(type);
    return added;
}

static int fill(PyObject *module) {
    crc32c_init();
    if (add_type(module, "EventWriter", event_writer_type(module)) < 0 || add_type(module, "Events", events_type(module)) < 0) {
        return -1;
    }
    return PyModule_AddIntConstant(module, "SHAPE", SHAPE);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headrace_native",
    .m_doc = "The hot paths of headrace's SDK, agent, load and readers of logs in C.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_headrace_native(void) { return PyModuleDef_Init(&definition); }
