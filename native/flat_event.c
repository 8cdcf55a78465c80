/* One Avro body of a flat schema to an instance of a reader's class: those that platform's reader/decoding/flat_event.py plans. */
#include "flat_event.h"

#include <stdint.h>
#include <string.h>

#define SKIPPED 255
#define MOST_ARGUMENTS 255
/* Of the years 1 to 9999: fastavro refuses other times. */
#define FIRST_MS (-62135596800000)
#define LAST_MS 253402300799999

/* A field, as flat_event.py writes it: three bytes. Its kind, where its null stands, and which argument of the class it is. */
enum { LONG = 'l', MILLISECONDS = 'm', FLOAT = 'f', DOUBLE = 'd', BOOLEAN = 'b', TEXT = 's', BYTES = 'y' };
enum { NEVER_NULL = 0, NULL_FIRST = 1, NULL_SECOND = 2, NULL_IS_ODD = 4 };

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

/* 0, with a value (a new reference) unless it is skipped; -1: the body is odd, or there is an error. */
static int take_value(Body *body, unsigned char kind, int is_wanted, PyObject **value) {
    Py_ssize_t left = body->end - body->at;
    int64_t number;
    double real;
    float narrow;
    switch (kind) {
    case LONG:
    case MILLISECONDS:
        if (take_long(body, &number) < 0 || (kind == MILLISECONDS && (number < FIRST_MS || number > LAST_MS))) {
            return -1;
        }
        *value = is_wanted ? PyLong_FromLongLong(number) : NULL;
        break;
    case DOUBLE:
        if (left < 8) {
            return -1;
        }
        memcpy(&real, body->at, 8);
        body->at += 8;
        *value = is_wanted ? PyFloat_FromDouble(real) : NULL;
        break;
    case FLOAT:
        if (left < 4) {
            return -1;
        }
        memcpy(&narrow, body->at, 4);
        body->at += 4;
        *value = is_wanted ? PyFloat_FromDouble(narrow) : NULL;
        break;
    case BOOLEAN:
        if (left < 1 || *body->at > 1) {
            return -1;
        }
        *value = is_wanted ? PyBool_FromLong(*body->at) : NULL;
        body->at++;
        break;
    default:
        if (take_long(body, &number) < 0 || number < 0 || number > body->end - body->at) {
            return -1;
        }
        *value = NULL;
        if (kind == TEXT) {
            /* Text that is skipped is looked at, too: what is no UTF-8 is no event. */
            *value = PyUnicode_DecodeUTF8((const char *)body->at, (Py_ssize_t)number, "strict");
            if (*value == NULL) {
                return -1;
            }
            if (!is_wanted) {
                Py_CLEAR(*value);
            }
        } else if (is_wanted) {
            *value = PyBytes_FromStringAndSize((const char *)body->at, (Py_ssize_t)number);
        }
        body->at += number;
    }
    return is_wanted && *value == NULL ? -1 : 0;
}

/* 0, or -1: the body is not of this schema to its last byte, or not beyond doubt, or there is an error. */
static int take_body(Body *body, const unsigned char *fields, Py_ssize_t field_count, PyObject **values) {
    for (Py_ssize_t field = 0; field < field_count; field++, fields += 3) {
        unsigned char nulls = fields[1], place = fields[2];
        int is_wanted = place != SKIPPED;
        PyObject *value = NULL;
        int is_null = 0;
        if ((nulls & 3) != NEVER_NULL) {
            if (body->at == body->end || (*body->at != 0 && *body->at != 2)) {
                return -1;
            }
            is_null = (*body->at++ >> 1) == ((nulls & 3) == NULL_SECOND);
        }
        if (is_null) {
            if (nulls & NULL_IS_ODD) {
                return -1;
            }
            if (is_wanted) {
                value = Py_None;
                Py_INCREF(value);
            }
        } else if (take_value(body, fields[0], is_wanted, &value) < 0) {
            return -1;
        }
        if (is_wanted) {
            values[place] = value;
        }
    }
    return body->at == body->end ? 0 : -1;
}

/* flat_event(class, argument count, fields, skip, payload) -> an instance; None where the payload, or the class, is not beyond doubt:
 * then Python decides. */
PyObject *flat_event(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    (void)module;
    char *fields, *payload;
    Py_ssize_t fields_size, payload_size;
    if (count != 5) {
        PyErr_SetString(PyExc_TypeError, "flat_event(class, argument count, fields, skip, payload)");
        return NULL;
    }
    Py_ssize_t argument_count = PyLong_AsSsize_t(arguments[1]), skip = PyLong_AsSsize_t(arguments[3]);
    if (PyErr_Occurred() || PyBytes_AsStringAndSize(arguments[2], &fields, &fields_size) < 0
        || PyBytes_AsStringAndSize(arguments[4], &payload, &payload_size) < 0) {
        return NULL;
    }
    if (argument_count < 0 || argument_count >= MOST_ARGUMENTS || fields_size % 3 || skip < 0) {
        PyErr_SetString(PyExc_ValueError, "flat_event: no plan that flat_event.py writes");
        return NULL;
    }
    for (Py_ssize_t at = 2; at < fields_size; at += 3) {
        unsigned char place = (unsigned char)fields[at];
        if (place != SKIPPED && place >= argument_count) {
            PyErr_SetString(PyExc_ValueError, "flat_event: a field is no argument");
            return NULL;
        }
    }
    if (skip > payload_size) {
        Py_RETURN_NONE;
    }
    PyObject *values[MOST_ARGUMENTS] = {NULL};
    Body body = {(const unsigned char *)payload + skip, (const unsigned char *)payload + payload_size};
    PyObject *made = NULL;
    int is_taken = take_body(&body, (const unsigned char *)fields, fields_size / 3, values) == 0;
    for (Py_ssize_t at = 0; is_taken && at < argument_count; at++) {
        is_taken = values[at] != NULL;
    }
    if (is_taken) {
        PyObject *given = PyTuple_New(argument_count);
        if (given != NULL) {
            for (Py_ssize_t at = 0; at < argument_count; at++) {
                PyTuple_SetItem(given, at, values[at]); /* takes the reference */
                values[at] = NULL;
            }
            made = PyObject_Call(arguments[0], given, NULL);
            Py_DECREF(given);
        }
    }
    for (Py_ssize_t at = 0; at < argument_count; at++) {
        Py_XDECREF(values[at]);
    }
    if (made != NULL) {
        return made;
    }
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) {
            return NULL;
        }
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}
