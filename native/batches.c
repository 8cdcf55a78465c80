/* Events into batches: which goes into which, and their records. platform/agent/plan has the same in Python. */
#include "buffer.h"
#include "events.h"
#include "varint.h"

#include <stdlib.h>

#define NO_KEY (-1)

static uint32_t murmur2(const unsigned char *data, uint32_t size) {
    const uint32_t by = 0x5BD1E995u;
    uint32_t hashed = 0x9747B28Cu ^ size;
    for (; size >= 4; size -= 4, data += 4) {
        uint32_t word = (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        word *= by;
        word = (word ^ word >> 24) * by;
        hashed = hashed * by ^ word;
    }
    if (size > 0) {
        uint32_t word = 0;
        for (uint32_t at = size; at > 0; at--) {
            word = word << 8 | data[at - 1];
        }
        hashed = (hashed ^ word) * by;
    }
    hashed = (hashed ^ hashed >> 13) * by;
    return hashed ^ hashed >> 15;
}

/* The records of one window and partition, and the batch of them that is being filled. */
typedef struct {
    int64_t window;
    int64_t partition;
    PyObject *batches; /* a list of the finished ones */
    Buffer picks;
    size_t expected, start, end; /* the run [start, end) is not in `picks` yet; `expected` is the end of the run before it */
    size_t count;
    uint64_t size;
} Group;

typedef struct {
    Group **groups;
    size_t count, room;
    uint32_t *table; /* open addressing: 0, or the index of a group + 1 */
    size_t mask;
} Groups;

static void groups_free(Groups *self) {
    for (size_t at = 0; at < self->count; at++) {
        Py_XDECREF(self->groups[at]->batches);
        buffer_free(&self->groups[at]->picks);
        PyMem_Free(self->groups[at]);
    }
    PyMem_Free(self->groups);
    PyMem_Free(self->table);
}

static size_t place_of(const Groups *self, int64_t window, int64_t partition) {
    uint64_t mixed = ((uint64_t)window ^ (uint64_t)partition * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    return (size_t)(mixed >> 32) & self->mask;
}

static int groups_grow(Groups *self) {
    size_t room = self->room ? 2 * self->room : 16;
    Group **groups = PyMem_Realloc(self->groups, room * sizeof(Group *));
    if (groups != NULL) {
        self->groups = groups;
    }
    uint32_t *table = groups == NULL ? NULL : PyMem_Calloc(4 * room, sizeof(uint32_t));
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(self->table);
    self->room = room;
    self->table = table;
    self->mask = 4 * room - 1;
    for (size_t index = 0; index < self->count; index++) {
        size_t at = place_of(self, self->groups[index]->window, self->groups[index]->partition);
        while (table[at]) {
            at = (at + 1) & self->mask;
        }
        table[at] = (uint32_t)index + 1;
    }
    return 0;
}

/* NULL with an exception. */
static Group *group_of(Groups *self, int64_t window, int64_t partition) {
    if (self->count == self->room && groups_grow(self) < 0) {
        return NULL;
    }
    size_t at = place_of(self, window, partition);
    for (; self->table[at]; at = (at + 1) & self->mask) {
        Group *one = self->groups[self->table[at] - 1];
        if (one->window == window && one->partition == partition) {
            return one;
        }
    }
    Group *made = PyMem_Malloc(sizeof(Group));
    PyObject *batches = made == NULL ? PyErr_NoMemory() : PyList_New(0);
    if (batches == NULL) {
        PyMem_Free(made);
        return NULL;
    }
    made->window = window;
    made->partition = partition;
    made->batches = batches;
    buffer_init(&made->picks);
    made->expected = made->start = made->end = made->count = 0;
    made->size = 0;
    self->groups[self->count++] = made;
    self->table[at] = (uint32_t)self->count;
    return made;
}

static int put_run(Group *self) {
    if (self->start == self->end) {
        return 0;
    }
    if (buffer_put_varint(&self->picks, self->start - self->expected) < 0 || buffer_put_varint(&self->picks, self->end - self->start) < 0) {
        return -1;
    }
    self->expected = self->end;
    return 0;
}

static int end_batch(Group *self) {
    if (put_run(self) < 0) {
        return -1;
    }
    PyObject *batch = Py_BuildValue("LLy#n", (long long)self->window, (long long)self->partition, (const char *)self->picks.data,
                                    (Py_ssize_t)self->picks.used, (Py_ssize_t)self->count);
    int added = batch == NULL ? -1 : PyList_Append(self->batches, batch);
    Py_XDECREF(batch);
    self->picks.used = 0;
    self->expected = self->start = self->end = self->count = 0;
    self->size = 0;
    return added;
}

static int put_event(Group *self, size_t at, uint64_t size, uint64_t batch_bytes) {
    if (self->count && self->size + size > batch_bytes && end_batch(self) < 0) {
        return -1;
    }
    if (self->end != at || self->start == self->end) {
        if (put_run(self) < 0) {
            return -1;
        }
        self->start = at;
    }
    self->end = at + 1;
    self->count++;
    self->size += size;
    return 0;
}

static int by_window(const void *one, const void *other) {
    const Group *a = *(Group *const *)one, *b = *(Group *const *)other;
    if (a->window != b->window) {
        return a->window < b->window ? -1 : 1;
    }
    return a->partition < b->partition ? -1 : a->partition > b->partition;
}

static PyObject *all_batches(Groups *groups) {
    PyObject *found = PyList_New(0);
    if (found == NULL || groups->count == 0) {
        return found;
    }
    qsort(groups->groups, groups->count, sizeof(Group *), by_window);
    for (size_t at = 0; at < groups->count; at++) {
        Py_ssize_t end = PyList_Size(found);
        if (end_batch(groups->groups[at]) < 0 || PyList_SetSlice(found, end, end, groups->groups[at]->batches) < 0) {
            Py_DECREF(found);
            return NULL;
        }
    }
    return found;
}

/* batches(window ms, partition count, batch bytes, overhead of a record in bytes) -> [(window, index of the partition or -1, picks,
 * records)], by window and partition, those of one in order */
PyObject *events_batches(Events *self, PyObject *const *arguments, Py_ssize_t count) {
    long long numbers[4];
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "batches takes window ms, partition count, batch bytes and overhead bytes");
        return NULL;
    }
    for (int at = 0; at < 4; at++) {
        numbers[at] = PyLong_AsLongLong(arguments[at]);
        if (PyErr_Occurred()) {
            return NULL;
        }
        if (numbers[at] < 0 || numbers[at] > INT32_MAX || (at < 2 && numbers[at] == 0)) {
            PyErr_SetString(PyExc_OverflowError, "these numbers have 31 bits, and the first two are not 0");
            return NULL;
        }
    }
    int64_t window_ms = numbers[0];
    Groups groups = {0};
    Group *last = NULL;
    for (size_t at = 0; at < self->count; at++) {
        const Event *event = &self->events[at];
        int64_t window = event->timestamp_ms < 0 ? -window_ms : event->timestamp_ms - event->timestamp_ms % window_ms;
        int64_t partition = NO_KEY;
        if (event->key != NULL) {
            partition = (int64_t)(murmur2(event->key, event->key_size) & 0x7FFFFFFFu) % numbers[1];
        }
        if (last == NULL || last->window != window || last->partition != partition) {
            last = group_of(&groups, window, partition);
        }
        uint64_t size = (uint64_t)numbers[3] + event->body_size + event->key_size;
        if (last == NULL || put_event(last, at, size, (uint64_t)numbers[2]) < 0) {
            groups_free(&groups);
            return NULL;
        }
    }
    PyObject *found = all_batches(&groups);
    groups_free(&groups);
    return found;
}

/* The places of picks, one by one. */
typedef struct {
    const unsigned char *at, *end;
    size_t next, left, count;
} Places;

static uint64_t read_varint(Places *places) {
    uint64_t value = 0;
    for (int shift = 0; places->at < places->end && shift < 63; shift += 7) {
        unsigned char byte = *places->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            break;
        }
    }
    return value;
}

/* Whether another place follows, and is one of an event. */
static int next_place(Places *places, size_t *place) {
    while (places->left == 0) {
        if (places->at == places->end) {
            return 0;
        }
        uint64_t left_out = read_varint(places);
        places->left = (size_t)read_varint(places);
        if (left_out >= places->count - places->next) {
            return 0;
        }
        places->next += (size_t)left_out;
    }
    if (places->next >= places->count) {
        return 0;
    }
    places->left--;
    *place = places->next++;
    return 1;
}

static uint64_t size_of_record(const Event *event, uint64_t delta, uint64_t offset, uint64_t prefix) {
    uint64_t key = event->key == NULL ? 1 : size_of_varint((uint64_t)event->key_size << 1) + event->key_size;
    uint64_t value = prefix + event->body_size;
    return 1 + size_of_varint(delta << 1) + size_of_varint(offset << 1) + key + size_of_varint(value << 1) + value + 1;
}

/* framed(prefix, picks) -> (records, their number, lowest, highest time). Deltas are from the lowest time; each value is prefix + body. */
PyObject *events_framed(Events *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !PyBytes_Check(arguments[0]) || !PyBytes_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "framed takes prefix and picks");
        return NULL;
    }
    const char *prefix = PyBytes_AsString(arguments[0]);
    const unsigned char *picks = (const unsigned char *)PyBytes_AsString(arguments[1]);
    uint64_t prefix_size = (uint64_t)PyBytes_Size(arguments[0]), total = 0, records = 0;
    const Places all = {picks, picks + PyBytes_Size(arguments[1]), 0, 0, self->count};
    int64_t lowest = INT64_MAX, highest = INT64_MIN;
    size_t place;
    for (Places places = all; next_place(&places, &place);) {
        int64_t at_ms = self->events[place].timestamp_ms;
        lowest = at_ms < lowest ? at_ms : lowest;
        highest = at_ms > highest ? at_ms : highest;
    }
    for (Places places = all; next_place(&places, &place); records++) {
        const Event *event = &self->events[place];
        uint64_t size = size_of_record(event, (uint64_t)event->timestamp_ms - (uint64_t)lowest, records, prefix_size);
        if (size > INT32_MAX || total > PY_SSIZE_T_MAX - size - 10) {
            PyErr_SetString(PyExc_OverflowError, "a record has less than 2 GiB");
            return NULL;
        }
        total += size_of_varint(size << 1) + size;
    }
    PyObject *framed = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (framed == NULL) {
        return NULL;
    }
    unsigned char *at = (unsigned char *)PyBytes_AsString(framed);
    uint64_t offset = 0;
    for (Places places = all; next_place(&places, &place); offset++) {
        const Event *event = &self->events[place];
        uint64_t delta = (uint64_t)event->timestamp_ms - (uint64_t)lowest;
        at = put_varint(at, size_of_record(event, delta, offset, prefix_size) << 1);
        *at++ = 0; /* attributes */
        at = put_varint(put_varint(at, delta << 1), offset << 1);
        if (event->key == NULL) {
            *at++ = 1;
        } else {
            at = put_data(put_varint(at, (uint64_t)event->key_size << 1), (const char *)event->key, (Py_ssize_t)event->key_size);
        }
        at = put_varint(at, (prefix_size + event->body_size) << 1);
        at = put_data(at, prefix, (Py_ssize_t)prefix_size);
        at = put_data(at, (const char *)event->body, (Py_ssize_t)event->body_size);
        *at++ = 0; /* headers */
    }
    if (records == 0) {
        lowest = highest = 0;
    }
    return Py_BuildValue("NnLL", framed, (Py_ssize_t)records, (long long)lowest, (long long)highest);
}
