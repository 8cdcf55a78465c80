/* What readers of a log ask of its batches: which are sound, and in which windows their records lie. */
#ifndef HEADRACE_LOG_BATCHES_H
#define HEADRACE_LOG_BATCHES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

PyObject *sound_batches(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *window_runs(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
