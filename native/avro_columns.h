/* Avro bodies to columns. */
#ifndef HEADRACE_AVRO_COLUMNS_H
#define HEADRACE_AVRO_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *avro_columns(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
