/* The compiled program of a schema; `platform/sdk/encoding/program.py` says what its words mean. */
#ifndef HEADRACE_EVENT_WRITER_H
#define HEADRACE_EVENT_WRITER_H

#include "buffer.h"

enum Kind {
    KIND_NULL, KIND_BOOLEAN, KIND_INT, KIND_LONG, KIND_FLOAT, KIND_DOUBLE, KIND_STRING, KIND_BYTES,
    KIND_FIXED, KIND_ENUM, KIND_ARRAY, KIND_MAP, KIND_UNION, KIND_RECORD, KIND_LOGICAL, KIND_COUNT
};

typedef struct Node Node;

/* The branches of a union that may take values of one type, in order. */
typedef struct {
    PyObject *type;
    Py_ssize_t count;
    Py_ssize_t *indices;
} Choice;

struct Node {
    int kind;
    Py_ssize_t size;      /* FIXED: bytes; RECORD: index; UNION: branches */
    Node *nodes;          /* ARRAY, MAP, LOGICAL: one; UNION: `size` */
    PyObject *symbols;    /* ENUM: {symbol: varint} */
    PyObject *types;      /* LOGICAL: the types that `prepare` turns */
    PyObject *prepare;
    PyObject *schema;
    Py_ssize_t choice_count;
    Choice *choices;
};

enum Role { ROLE_OWN, ROLE_SERVER, ROLE_TIME };

typedef struct {
    PyObject *name;
    PyObject *fallback;   /* the default's bytes; NULL: an event without the field is not for this writer */
    int role;
    Node node;
} Field;

typedef struct {
    Py_ssize_t count;
    Field *fields;
} Record;

typedef struct {
    Py_ssize_t count;
    Record *records;
} Program;

/* Read a program from (((name, node, default bytes or None), ...), ...). 0, or -1 with an exception; then it can be cleared. */
int program_read(Program *program, PyObject *records);
void program_clear(Program *program);

enum Result { FAILED = -1, NOT_PLAIN = 0, WRITTEN = 1 };

/* One event that is being written. */
typedef struct {
    const Program *program;
    Buffer *out;
} Writing;

int write_long(Buffer *out, PyObject *value, int64_t lowest, int64_t highest);
/* Write the field of a record; count it in `found` if the record has it. */
int write_field(Writing *writing, const Field *field, PyObject *record, Py_ssize_t *found);

PyObject *event_writer_type(PyObject *module);

PyObject *frame_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *journal_record(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
