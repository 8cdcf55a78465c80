/* Avro bodies of one flat schema to the buffers of Arrow columns: those that platform's spark/source/flat_avro.py makes arrays of. */
#include "avro_columns.h"
#include "buffer.h"

#define MOST_FIELDS 1024
#define MOST_DATA INT32_MAX

/* A field's kind, as flat_avro.py writes it: two bytes each. */
enum { LONG = 'l', FLOAT = 'f', DOUBLE = 'd', BOOLEAN = 'b', TEXT = 's' };
enum { NEVER_NULL = 0, NULL_FIRST = 1, NULL_SECOND = 2 };

typedef struct {
    unsigned char kind;
    unsigned char nulls;
    PyObject *validity; /* bits; NULL: no nulls */
    PyObject *values;   /* 8 bytes a row; bits of booleans; 4-byte offsets of texts */
    unsigned char *validity_at;
    unsigned char *values_at;
    Buffer data; /* of texts */
} Column;

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} Body;

/* 0, or -1: the body ends, or the number has more than 64 bits. */
static int take_long(Body *body, int64_t *value) {
    uint64_t found = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (body->at == body->end) {
            return -1;
        }
        uint64_t byte = *body->at++;
        if (shift == 63 && byte > 1) {
            return -1;
        }
        found |= (byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(found >> 1) ^ -(int64_t)(found & 1);
            return 0;
        }
    }
    return -1;
}

/* 1: a value follows; 0: it is null; -1: it is no such branch. */
static int take_branch(Body *body, const Column *column) {
    if (column->nulls == NEVER_NULL) {
        return 1;
    }
    if (body->at == body->end || (*body->at != 0 && *body->at != 2)) {
        return -1;
    }
    int branch = *body->at++ >> 1;
    return branch != (column->nulls == NULL_SECOND);
}

static int take_value(Body *body, Column *column, Py_ssize_t row) {
    size_t left = (size_t)(body->end - body->at);
    int64_t number;
    double real;
    float narrow;
    switch (column->kind) {
    case LONG:
        if (take_long(body, &number) < 0) {
            return -1;
        }
        memcpy(column->values_at + 8 * row, &number, 8);
        return 0;
    case DOUBLE:
        if (left < 8) {
            return -1;
        }
        memcpy(column->values_at + 8 * row, body->at, 8);
        body->at += 8;
        return 0;
    case FLOAT:
        if (left < 4) {
            return -1;
        }
        memcpy(&narrow, body->at, 4);
        real = narrow;
        memcpy(column->values_at + 8 * row, &real, 8);
        body->at += 4;
        return 0;
    case BOOLEAN:
        if (left < 1 || *body->at > 1) {
            return -1;
        }
        column->values_at[row >> 3] |= (unsigned char)(*body->at++ << (row & 7));
        return 0;
    default:
        if (take_long(body, &number) < 0 || number < 0 || number > body->end - body->at
            || column->data.used + (size_t)number > MOST_DATA || buffer_put(&column->data, body->at, (size_t)number) < 0) {
            return -1;
        }
        body->at += number;
        return 0;
    }
}

/* 0, or -1: the body is not of this schema, to its last byte. */
static int take_body(Body *body, Column *columns, Py_ssize_t field_count, Py_ssize_t row) {
    for (Py_ssize_t field = 0; field < field_count; field++) {
        Column *column = &columns[field];
        int branch = take_branch(body, column);
        if (branch < 0 || (branch && take_value(body, column, row) < 0)) {
            return -1;
        }
        if (branch && column->validity != NULL) {
            column->validity_at[row >> 3] |= (unsigned char)(1 << (row & 7));
        }
        if (column->kind == TEXT) {
            int32_t end = (int32_t)column->data.used;
            memcpy(column->values_at + 4 * (row + 1), &end, 4);
        }
    }
    return body->at == body->end ? 0 : -1;
}

static PyObject *zeros(Py_ssize_t size, unsigned char **at) {
    PyObject *found = PyBytes_FromStringAndSize(NULL, size);
    if (found != NULL) {
        *at = (unsigned char *)PyBytes_AsString(found);
        memset(*at, 0, (size_t)size);
    }
    return found;
}

static int open_column(Column *column, Py_ssize_t row_count) {
    Py_ssize_t bits = (row_count + 7) / 8;
    Py_ssize_t size = column->kind == BOOLEAN ? bits : column->kind == TEXT ? 4 * (row_count + 1) : 8 * row_count;
    column->values = zeros(size, &column->values_at);
    if (column->values != NULL && column->nulls != NEVER_NULL) {
        column->validity = zeros(bits, &column->validity_at);
    }
    return column->values == NULL || (column->nulls != NEVER_NULL && column->validity == NULL) ? -1 : 0;
}

static PyObject *column_tuple(const Column *column) {
    PyObject *data = column->kind == TEXT ? buffer_bytes(&column->data) : Py_NewRef(Py_None);
    if (data == NULL) {
        return NULL;
    }
    PyObject *found = PyTuple_Pack(3, column->validity == NULL ? Py_None : column->validity, column->values, data);
    Py_DECREF(data);
    return found;
}

static PyObject *all_columns(const Column *columns, Py_ssize_t field_count) {
    PyObject *found = PyList_New(field_count);
    for (Py_ssize_t field = 0; found != NULL && field < field_count; field++) {
        PyObject *one = column_tuple(&columns[field]);
        if (one == NULL || PyList_SetItem(found, field, one) < 0) {
            Py_CLEAR(found);
        }
    }
    return found;
}

/* 1: all are decoded; 0: one is not as it should be; -1 with an error set. */
static int decode(Column *columns, Py_ssize_t field_count, PyObject *framed, Py_ssize_t skip) {
    Py_ssize_t row_count = PyList_Size(framed);
    for (Py_ssize_t field = 0; field < field_count; field++) {
        if (open_column(&columns[field], row_count) < 0) {
            return -1;
        }
    }
    for (Py_ssize_t row = 0; row < row_count; row++) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyList_GetItem(framed, row), &data, &size) < 0) {
            return -1;
        }
        if (size < skip) {
            return 0;
        }
        Body body = {(unsigned char *)data + skip, (unsigned char *)data + size};
        if (take_body(&body, columns, field_count, row) < 0) {
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    return 1;
}

/* avro_columns(kinds, framed, skip): a list of (validity or None, values, data or None), one for each field; None where a body is
not of the schema. `skip` bytes in front of each body are passed over. */
PyObject *avro_columns(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    char *kinds;
    Py_ssize_t size;
    if (count != 3 || !PyList_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "avro_columns(kinds: bytes, framed: list of bytes, skip: int)");
        return NULL;
    }
    Py_ssize_t skip = PyLong_AsSsize_t(arguments[2]);
    if (PyBytes_AsStringAndSize(arguments[0], &kinds, &size) < 0 || (skip == -1 && PyErr_Occurred())) {
        return NULL;
    }
    if (size % 2 != 0 || size > 2 * MOST_FIELDS || skip < 0) {
        PyErr_Format(PyExc_ValueError, "kinds of at most %d fields, two bytes each, and skip from 0 on", MOST_FIELDS);
        return NULL;
    }
    Py_ssize_t field_count = size / 2;
    Column *columns = PyMem_Calloc((size_t)field_count + 1, sizeof(Column));
    if (columns == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t field = 0; field < field_count; field++) {
        columns[field].kind = (unsigned char)kinds[2 * field];
        columns[field].nulls = (unsigned char)kinds[2 * field + 1];
        buffer_init(&columns[field].data);
    }
    int is_decoded = decode(columns, field_count, arguments[1], skip);
    PyObject *found = is_decoded == 1 ? all_columns(columns, field_count) : is_decoded == 0 ? Py_NewRef(Py_None) : NULL;
    for (Py_ssize_t field = 0; field < field_count; field++) {
        Py_XDECREF(columns[field].validity);
        Py_XDECREF(columns[field].values);
        buffer_free(&columns[field].data);
    }
    PyMem_Free(columns);
    return found;
}
