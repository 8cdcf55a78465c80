#ifndef HEADRACE_FLAT_EVENT_H
#define HEADRACE_FLAT_EVENT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *flat_event(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
