/* Writes one value of each kind, as the program says. Values are of exact types, so that no code of the application runs here but
 * `prepare`, which is fastavro's. Python code may still run (keys of a dict that compare themselves), so each value is held while it
 * is written. */
#include "event_writer.h"

static int write_value(Writing *writing, const Node *node, PyObject *value);

#define TRY_PUT(put) do { if ((put) < 0) { return FAILED; } } while (0)

int write_long(Buffer *out, PyObject *value, int64_t lowest, int64_t highest) {
    if (!PyLong_CheckExact(value)) {
        return NOT_PLAIN;
    }
    int overflow = 0;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0 || number < lowest || number > highest) {
        return NOT_PLAIN;
    }
    TRY_PUT(buffer_put_zigzag(out, number));
    return WRITTEN;
}

static int write_real(Buffer *out, PyObject *value, int is_double) {
    double number;
    if (PyFloat_CheckExact(value)) {
        number = PyFloat_AsDouble(value);
    } else if (PyLong_CheckExact(value)) {
        number = PyLong_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred()) {
            return FAILED;
        }
    } else {
        return NOT_PLAIN;
    }
    uint64_t bits = 0;
    size_t size = is_double ? 8 : 4;
    if (is_double) {
        memcpy(&bits, &number, 8);
    } else {
        float narrow = (float)number;
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, 4);
        bits = narrow_bits;
    }
    unsigned char bytes[8];
    for (size_t at = 0; at < size; at++) {
        bytes[at] = (unsigned char)(bits >> (8 * at));
    }
    TRY_PUT(buffer_put(out, bytes, size));
    return WRITTEN;
}

static int write_string(Buffer *out, PyObject *value) {
    if (!PyUnicode_CheckExact(value)) {
        return NOT_PLAIN;
    }
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text == NULL) {
        return FAILED;
    }
    TRY_PUT(buffer_put_sized(out, text, size));
    return WRITTEN;
}

/* FIXED if `size` is not negative, else BYTES. */
static int write_bytes(Buffer *out, PyObject *value, Py_ssize_t size) {
    const char *data;
    Py_ssize_t length;
    if (PyBytes_CheckExact(value)) {
        data = PyBytes_AsString(value);
        length = PyBytes_Size(value);
    } else if (PyByteArray_CheckExact(value)) {
        data = PyByteArray_AsString(value);
        length = PyByteArray_Size(value);
    } else {
        return NOT_PLAIN;
    }
    if (size < 0) {
        TRY_PUT(buffer_put_sized(out, data, length));
        return WRITTEN;
    }
    if (length != size) {
        return NOT_PLAIN;
    }
    TRY_PUT(buffer_put(out, data, (size_t)length));
    return WRITTEN;
}

static int write_enum(Buffer *out, const Node *node, PyObject *value) {
    if (!PyUnicode_CheckExact(value)) {
        return NOT_PLAIN;
    }
    PyObject *index = PyDict_GetItemWithError(node->symbols, value);
    if (index == NULL) {
        return PyErr_Occurred() ? FAILED : NOT_PLAIN;
    }
    TRY_PUT(buffer_put(out, PyBytes_AsString(index), (size_t)PyBytes_Size(index)));
    return WRITTEN;
}

static int write_array(Writing *writing, const Node *node, PyObject *value) {
    int is_list = PyList_CheckExact(value);
    if (!is_list && !PyTuple_CheckExact(value)) {
        return NOT_PLAIN;
    }
    Py_ssize_t count = is_list ? PyList_Size(value) : PyTuple_Size(value);
    if (count > 0) {
        TRY_PUT(buffer_put_zigzag(writing->out, count));
    }
    for (Py_ssize_t at = 0; at < count; at++) {
        if (is_list && PyList_Size(value) != count) {
            return NOT_PLAIN;
        }
        PyObject *item = Py_NewRef(is_list ? PyList_GetItem(value, at) : PyTuple_GetItem(value, at));
        int result = write_value(writing, node->nodes, item);
        Py_DECREF(item);
        if (result != WRITTEN) {
            return result;
        }
    }
    TRY_PUT(buffer_put_byte(writing->out, 0));
    return WRITTEN;
}

static int write_map(Writing *writing, const Node *node, PyObject *value) {
    if (!PyDict_CheckExact(value)) {
        return NOT_PLAIN;
    }
    Py_ssize_t count = PyDict_Size(value), seen = 0, place = 0;
    if (count > 0) {
        TRY_PUT(buffer_put_zigzag(writing->out, count));
    }
    PyObject *key, *item;
    while (PyDict_Next(value, &place, &key, &item)) {
        Py_INCREF(key);
        Py_INCREF(item);
        int result = write_string(writing->out, key);
        if (result == WRITTEN) {
            result = write_value(writing, node->nodes, item);
        }
        Py_DECREF(key);
        Py_DECREF(item);
        if (result != WRITTEN) {
            return result;
        }
        if (PyDict_Size(value) != count) {
            return NOT_PLAIN;
        }
        seen++;
    }
    if (seen != count) {
        return NOT_PLAIN;
    }
    TRY_PUT(buffer_put_byte(writing->out, 0));
    return WRITTEN;
}

static int write_union(Writing *writing, const Node *node, PyObject *value) {
    PyObject *type = (PyObject *)Py_TYPE(value);
    for (Py_ssize_t at = 0; at < node->choice_count; at++) {
        const Choice *choice = &node->choices[at];
        if (choice->type != type) {
            continue;
        }
        size_t before = writing->out->used;
        for (Py_ssize_t tried = 0; tried < choice->count; tried++) {
            Py_ssize_t index = choice->indices[tried];
            writing->out->used = before;
            TRY_PUT(buffer_put_zigzag(writing->out, index));
            int result = write_value(writing, &node->nodes[index], value);
            if (result != NOT_PLAIN) {
                return result;
            }
        }
        return NOT_PLAIN;
    }
    return NOT_PLAIN;
}

static int write_logical(Writing *writing, const Node *node, PyObject *value) {
    PyObject *type = (PyObject *)Py_TYPE(value);
    for (Py_ssize_t at = 0; at < PyTuple_Size(node->types); at++) {
        if (PyTuple_GetItem(node->types, at) == type) {
            PyObject *plain = PyObject_CallFunctionObjArgs(node->prepare, value, node->schema, NULL);
            if (plain == NULL) {
                return FAILED;
            }
            int result = write_value(writing, node->nodes, plain);
            Py_DECREF(plain);
            return result;
        }
    }
    return write_value(writing, node->nodes, value);
}

int write_field(Writing *writing, const Field *field, PyObject *record, Py_ssize_t *found) {
    PyObject *value = PyDict_GetItemWithError(record, field->name);
    if (value == NULL) {
        if (PyErr_Occurred()) {
            return FAILED;
        }
        if (field->fallback == NULL) {
            return NOT_PLAIN;
        }
        TRY_PUT(buffer_put(writing->out, PyBytes_AsString(field->fallback), (size_t)PyBytes_Size(field->fallback)));
        return WRITTEN;
    }
    ++*found;
    Py_INCREF(value);
    int result = write_value(writing, &field->node, value);
    Py_DECREF(value);
    return result;
}

static int write_record(Writing *writing, const Record *record, PyObject *value) {
    if (!PyDict_CheckExact(value)) {
        return NOT_PLAIN;
    }
    Py_ssize_t found = 0;
    for (Py_ssize_t at = 0; at < record->count; at++) {
        int result = write_field(writing, &record->fields[at], value, &found);
        if (result != WRITTEN) {
            return result;
        }
    }
    return found == PyDict_Size(value) ? WRITTEN : NOT_PLAIN;
}

static int write_nested(Writing *writing, const Node *node, PyObject *value) {
    switch (node->kind) {
    case KIND_ARRAY:
        return write_array(writing, node, value);
    case KIND_MAP:
        return write_map(writing, node, value);
    default:
        return write_record(writing, &writing->program->records[node->size], value);
    }
}

static int write_value(Writing *writing, const Node *node, PyObject *value) {
    Buffer *out = writing->out;
    switch (node->kind) {
    case KIND_NULL:
        return value == Py_None ? WRITTEN : NOT_PLAIN;
    case KIND_BOOLEAN:
        if (value != Py_True && value != Py_False) {
            return NOT_PLAIN;
        }
        TRY_PUT(buffer_put_byte(out, value == Py_True));
        return WRITTEN;
    case KIND_INT:
        return write_long(out, value, INT32_MIN, INT32_MAX);
    case KIND_LONG:
        return write_long(out, value, INT64_MIN, INT64_MAX);
    case KIND_FLOAT:
        return write_real(out, value, 0);
    case KIND_DOUBLE:
        return write_real(out, value, 1);
    case KIND_STRING:
        return write_string(out, value);
    case KIND_BYTES:
        return write_bytes(out, value, -1);
    case KIND_FIXED:
        return write_bytes(out, value, node->size);
    case KIND_ENUM:
        return write_enum(out, node, value);
    case KIND_UNION:
        return write_union(writing, node, value);
    case KIND_LOGICAL:
        return write_logical(writing, node, value);
    default: {
        if (Py_EnterRecursiveCall(" in an event") != 0) {
            return FAILED;
        }
        int result = write_nested(writing, node, value);
        Py_LeaveRecursiveCall();
        return result;
    }
    }
}
