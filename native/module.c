/* headrace_native: the hot paths of headrace's SDK. */
#include "event_writer.h"

/* The version of these functions' parameters: headrace uses no other than it knows. */
#define SHAPE 1

static PyMethodDef methods[] = {
    {"frame_record", (PyCFunction)(void (*)(void))frame_record, METH_FASTCALL, "Return a record of a Kafka batch, without headers."},
    {"journal_record", (PyCFunction)(void (*)(void))journal_record, METH_FASTCALL, "Return a record of a journal."},
    {NULL},
};

static int fill(PyObject *module) {
    records_init();
    PyObject *type = event_writer_type(module);
    if (type == NULL) {
        return -1;
    }
    int added = PyModule_AddObjectRef(module, "EventWriter", type);
    Py_DECREF(type);
    return added < 0 ? -1 : PyModule_AddIntConstant(module, "SHAPE", SHAPE);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headrace_native",
    .m_doc = "The hot paths of headrace's SDK in C.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_headrace_native(void) { return PyModuleDef_Init(&definition); }
