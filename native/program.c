/* Reads a program once, when a writer is made. Everything is checked here, so that the writer need not. */
#include "event_writer.h"

static int read_node(Node *node, PyObject *words, Py_ssize_t record_count);

static int refuse(const char *what) {
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "no program for an event writer: %s", what);
    }
    return -1;
}

static PyObject *item_of(PyObject *words, Py_ssize_t at) {
    return PyTuple_Check(words) && at < PyTuple_Size(words) ? PyTuple_GetItem(words, at) : NULL;
}

static void *new_array(Py_ssize_t count, size_t size) {
    void *made = PyMem_Calloc(count > 0 ? (size_t)count : 1, size);
    if (made == NULL) {
        PyErr_NoMemory();
    }
    return made;
}

static int read_choices(Node *node, PyObject *table) {
    if (table == NULL || !PyDict_Check(table)) {
        return refuse("a union without choices");
    }
    node->choices = new_array(PyDict_Size(table), sizeof(Choice));
    if (node->choices == NULL) {
        return -1;
    }
    PyObject *type, *indices;
    Py_ssize_t place = 0;
    while (PyDict_Next(table, &place, &type, &indices)) {
        if (!PyType_Check(type) || !PyTuple_Check(indices)) {
            return refuse("a choice that is no type and tuple");
        }
        Choice *choice = &node->choices[node->choice_count];
        choice->indices = new_array(PyTuple_Size(indices), sizeof(Py_ssize_t));
        if (choice->indices == NULL) {
            return -1;
        }
        node->choice_count++;
        choice->type = Py_NewRef(type);
        for (Py_ssize_t at = 0; at < PyTuple_Size(indices); at++) {
            Py_ssize_t index = PyLong_AsSsize_t(PyTuple_GetItem(indices, at));
            if (index < 0 || index >= node->size) {
                return refuse("a choice of no branch");
            }
            choice->indices[choice->count++] = index;
        }
    }
    return 0;
}

static int read_symbols(Node *node, PyObject *symbols) {
    if (symbols == NULL || !PyDict_Check(symbols)) {
        return refuse("an enum without symbols");
    }
    PyObject *symbol, *index;
    Py_ssize_t place = 0;
    while (PyDict_Next(symbols, &place, &symbol, &index)) {
        if (!PyBytes_Check(index)) {
            return refuse("a symbol without bytes");
        }
    }
    node->symbols = PyDict_Copy(symbols);
    return node->symbols == NULL ? -1 : 0;
}

static int read_children(Node *node, PyObject *children, Py_ssize_t count, Py_ssize_t record_count) {
    node->nodes = new_array(count, sizeof(Node));
    if (node->nodes == NULL) {
        return -1;
    }
    /* All of them, before one is read: what is not read yet is a null and can be cleared. */
    node->size = count;
    for (Py_ssize_t at = 0; at < count; at++) {
        if (read_node(&node->nodes[at], PyTuple_GetItem(children, at), record_count) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_child(Node *node, PyObject *words, Py_ssize_t record_count) {
    PyObject *child = item_of(words, 1);
    if (child == NULL) {
        return refuse("a type without its parts");
    }
    node->nodes = new_array(1, sizeof(Node));
    if (node->nodes == NULL) {
        return -1;
    }
    node->size = 1;
    return read_node(node->nodes, child, record_count);
}

static int read_logical(Node *node, PyObject *words, Py_ssize_t record_count) {
    PyObject *types = item_of(words, 2), *prepare = item_of(words, 3), *schema = item_of(words, 4);
    if (types == NULL || !PyTuple_Check(types) || prepare == NULL || !PyCallable_Check(prepare) || schema == NULL) {
        return refuse("a logical type without types, function and schema");
    }
    node->types = Py_NewRef(types);
    node->prepare = Py_NewRef(prepare);
    node->schema = Py_NewRef(schema);
    return read_child(node, words, record_count);
}

static int read_kind(Node *node, PyObject *words, Py_ssize_t record_count) {
    PyObject *first = item_of(words, 0), *second = item_of(words, 1);
    long kind = first == NULL ? -1 : PyLong_AsLong(first);
    if (kind < 0 || kind >= KIND_COUNT) {
        return refuse("an unknown type");
    }
    node->kind = (int)kind;
    switch (kind) {
    case KIND_FIXED:
    case KIND_RECORD:
        node->size = second == NULL ? -1 : PyLong_AsSsize_t(second);
        if (node->size < 0 || (kind == KIND_RECORD && node->size >= record_count)) {
            return refuse("a size or an index out of range");
        }
        return 0;
    case KIND_ENUM:
        return read_symbols(node, second);
    case KIND_ARRAY:
    case KIND_MAP:
        return read_child(node, words, record_count);
    case KIND_LOGICAL:
        return read_logical(node, words, record_count);
    case KIND_UNION:
        if (second == NULL || !PyTuple_Check(second)) {
            return refuse("a union without branches");
        }
        if (read_children(node, second, PyTuple_Size(second), record_count) < 0) {
            return -1;
        }
        return read_choices(node, item_of(words, 2));
    default:
        return 0;
    }
}

static int read_node(Node *node, PyObject *words, Py_ssize_t record_count) {
    if (Py_EnterRecursiveCall(" in a program") != 0) {
        return -1;
    }
    int done = read_kind(node, words, record_count);
    Py_LeaveRecursiveCall();
    return done;
}

static int read_record(Record *record, PyObject *words, Py_ssize_t record_count) {
    if (!PyTuple_Check(words)) {
        return refuse("a record that is no tuple");
    }
    record->fields = new_array(PyTuple_Size(words), sizeof(Field));
    if (record->fields == NULL) {
        return -1;
    }
    for (Py_ssize_t at = 0; at < PyTuple_Size(words); at++) {
        PyObject *field = PyTuple_GetItem(words, at);
        PyObject *name = item_of(field, 0), *node = item_of(field, 1), *fallback = item_of(field, 2);
        if (name == NULL || !PyUnicode_CheckExact(name) || node == NULL || fallback == NULL) {
            return refuse("a field without name, type and default");
        }
        if (fallback != Py_None && !PyBytes_Check(fallback)) {
            return refuse("a default that is not in bytes");
        }
        Field *made = &record->fields[record->count++];
        made->name = Py_NewRef(name);
        PyUnicode_InternInPlace(&made->name);
        made->fallback = fallback == Py_None ? NULL : Py_NewRef(fallback);
        if (read_node(&made->node, node, record_count) < 0) {
            return -1;
        }
    }
    return 0;
}

int program_read(Program *program, PyObject *records) {
    if (!PyTuple_Check(records) || PyTuple_Size(records) == 0) {
        return refuse("no record");
    }
    Py_ssize_t count = PyTuple_Size(records);
    program->records = new_array(count, sizeof(Record));
    if (program->records == NULL) {
        return -1;
    }
    program->count = count;
    for (Py_ssize_t at = 0; at < count; at++) {
        if (read_record(&program->records[at], PyTuple_GetItem(records, at), count) < 0) {
            return -1;
        }
    }
    return 0;
}

static void clear_node(Node *node) {
    int has_children = node->kind == KIND_ARRAY || node->kind == KIND_MAP || node->kind == KIND_LOGICAL || node->kind == KIND_UNION;
    for (Py_ssize_t at = 0; has_children && node->nodes != NULL && at < node->size; at++) {
        clear_node(&node->nodes[at]);
    }
    for (Py_ssize_t at = 0; at < node->choice_count; at++) {
        Py_XDECREF(node->choices[at].type);
        PyMem_Free(node->choices[at].indices);
    }
    PyMem_Free(node->choices);
    PyMem_Free(node->nodes);
    Py_XDECREF(node->symbols);
    Py_XDECREF(node->types);
    Py_XDECREF(node->prepare);
    Py_XDECREF(node->schema);
}

void program_clear(Program *program) {
    for (Py_ssize_t at = 0; program->records != NULL && at < program->count; at++) {
        Record *record = &program->records[at];
        for (Py_ssize_t field = 0; field < record->count; field++) {
            Py_XDECREF(record->fields[field].name);
            Py_XDECREF(record->fields[field].fallback);
            clear_node(&record->fields[field].node);
        }
        PyMem_Free(record->fields);
    }
    PyMem_Free(program->records);
    program->records = NULL;
    program->count = 0;
}
