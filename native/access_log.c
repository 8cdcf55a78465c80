/* Lines of an access log to Avro bodies: those that platform/agent/parsers/access_log_bodies.py takes, to the same bytes. */
#include "events.h"
#include "varint.h"

#define STAMP 28           /* [17/May/2015:10:05:03 +0000] */
#define SHORTEST 50        /* no shorter line is taken */
#define MOST_OVERHEAD 64   /* of a body, besides its line's bytes and the server: lengths, branches, the time */
#define PARTS 7

typedef struct {
    const unsigned char *at;
    size_t size;
} Part;

/* The number of two digits, or -1. */
static int two(const unsigned char *at) {
    return at[0] < '0' || at[0] > '9' || at[1] < '0' || at[1] > '9' ? -1 : 10 * (at[0] - '0') + at[1] - '0';
}

static int month_of(const unsigned char *at) {
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    for (int month = 0; month < 12; month++) {
        if (memcmp(names + 3 * month, at, 3) == 0) {
            return month + 1;
        }
    }
    return 0;
}

/* The instant of a stamp in ms; -1: it is none, or lies before 1970. */
static int64_t time_of(const unsigned char *at) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (at[0] != '[' || at[3] != '/' || at[7] != '/' || at[12] != ':' || at[15] != ':' || at[18] != ':' || at[21] != ' '
        || (at[22] != '+' && at[22] != '-') || at[27] != ']') {
        return -1;
    }
    int day = two(at + 1), month = month_of(at + 4), century = two(at + 8), of_century = two(at + 10);
    int hour = two(at + 13), minute = two(at + 16), second = two(at + 19), zone_hours = two(at + 23), zone_minutes = two(at + 25);
    int year = 100 * century + of_century;
    if (day < 1 || month == 0 || century < 0 || of_century < 0 || year < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59
        || second < 0 || second > 59 || zone_hours < 0 || zone_minutes < 0 || zone_minutes > 59) {
        return -1;
    }
    int is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > lengths[month - 1] + (month == 2 && is_leap)) {
        return -1;
    }
    int64_t before = year - 1, days = 365 * before + before / 4 - before / 100 + before / 400 - 719162 + day - 1;
    for (int earlier = 1; earlier < month; earlier++) {
        days += lengths[earlier - 1] + (earlier == 2 && is_leap);
    }
    int64_t zone_s = 3600 * zone_hours + 60 * zone_minutes;
    int64_t at_s = 86400 * days + 3600 * hour + 60 * minute + second + (at[22] == '-' ? zone_s : -zone_s);
    return at_s < 0 ? -1 : 1000 * at_s;
}

static unsigned char *put_string(unsigned char *at, Part text) {
    return put_data(put_varint(at, (uint64_t)text.size << 1), (const char *)text.at, (Py_ssize_t)text.size);
}

static unsigned char *put_some(unsigned char *at, Part text) {
    *at++ = 2; /* the second branch of the union */
    return put_string(at, text);
}

static unsigned char *put_nullable(unsigned char *at, Part text) {
    if (text.size == 0 || (text.size == 1 && text.at[0] == '-')) {
        *at++ = 0;
        return at;
    }
    return put_some(at, text);
}

/* Split at single spaces into exactly `count` words. */
static int split(Part text, Part *words, int count) {
    int found = 0;
    const unsigned char *start = text.at, *end = text.at + text.size;
    for (const unsigned char *at = start; at <= end; at++) {
        if (at == end || *at == ' ') {
            if (found == count) {
                return 0;
            }
            words[found++] = (Part){start, (size_t)(at - start)};
            start = at + 1;
        }
    }
    return found == count;
}

static int is_method(Part text) {
    static const char others[] = "!#$%&'*+.^_`|~-";
    for (size_t at = 0; at < text.size; at++) {
        unsigned char one = text.at[at];
        int is_letter = (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9');
        if (!is_letter && memchr(others, one, sizeof others - 1) == NULL) {
            return 0;
        }
    }
    return text.size > 0;
}

static int is_digit(unsigned char one) { return one >= '0' && one <= '9'; }

static int is_protocol(Part text) {
    if (text.size != 6 && text.size != 8) {
        return 0;
    }
    return memcmp(text.at, "HTTP/", 5) == 0 && is_digit(text.at[5]) && (text.size == 6 || (text.at[6] == '.' && is_digit(text.at[7])));
}

/* Status and size, ` 200 17 `. NULL: it is something else. */
static unsigned char *put_numbers(unsigned char *out, Part text) {
    Part words[4];
    if (!split(text, words, 4) || words[0].size || words[3].size || words[1].size != 3 || words[2].size < 1 || words[2].size > 18) {
        return NULL;
    }
    uint64_t numbers[2] = {0, 0};
    int is_unknown = words[2].size == 1 && words[2].at[0] == '-';
    for (int which = 0; which < 2 - is_unknown; which++) {
        for (size_t at = 0; at < words[1 + which].size; at++) {
            if (!is_digit(words[1 + which].at[at])) {
                return NULL;
            }
            numbers[which] = 10 * numbers[which] + words[1 + which].at[at] - '0';
        }
    }
    out = put_varint(out, numbers[0] << 1);
    *out++ = is_unknown ? 0 : 2;
    return is_unknown ? out : put_varint(out, numbers[1] << 1);
}

/* The parts between the quotes of a line of printable ASCII without a backslash. */
static int parts_of(const unsigned char *line, size_t size, Part *parts) {
    int found = 0;
    const unsigned char *start = line, *end = line + size;
    for (const unsigned char *at = line; at < end; at++) {
        if (*at < 0x20 || *at > 0x7E || *at == '\\') {
            return 0;
        }
        if (*at == '"') {
            if (found == PARTS - 1) {
                return 0;
            }
            parts[found++] = (Part){start, (size_t)(at - start)};
            start = at + 1;
        }
    }
    return found == PARTS - 1 && start == end;
}

typedef struct {
    unsigned char stamp[STAMP];
    int64_t time_ms;
} LastTime;

/* Write a line's body, and its time into `last`. Return the body's end; NULL: the line goes the long way. */
static unsigned char *put_line(unsigned char *out, const unsigned char *line, size_t size, Part server, LastTime *last) {
    Part parts[PARTS], clients[4], words[3];
    if (size < SHORTEST || !parts_of(line, size, parts) || parts[4].size != 1 || parts[4].at[0] != ' ') {
        return NULL;
    }
    Part front = parts[0];
    if (front.size <= STAMP + 1 || front.at[front.size - 1] != ' ') {
        return NULL;
    }
    const unsigned char *stamp = front.at + front.size - STAMP - 1;
    Part client = {front.at, front.size - STAMP - 1};
    if (!split(client, clients, 4) || clients[3].size || !clients[0].size || !clients[1].size || !clients[2].size) {
        return NULL;
    }
    if (!split(parts[1], words, 3) || !words[1].size || !is_method(words[0]) || !is_protocol(words[2])) {
        return NULL;
    }
    if (memcmp(stamp, last->stamp, STAMP) != 0) {
        memcpy(last->stamp, stamp, STAMP);
        last->time_ms = time_of(stamp);
    }
    if (last->time_ms < 0) {
        return NULL;
    }
    out = put_varint(out, (uint64_t)last->time_ms << 1);
    out = put_data(out, (const char *)server.at, (Py_ssize_t)server.size);
    out = put_nullable(put_nullable(put_string(out, clients[0]), clients[1]), clients[2]);
    out = put_some(put_some(put_some(out, words[0]), words[1]), words[2]);
    out = put_numbers(out, parts[2]);
    return out == NULL ? NULL : put_nullable(put_nullable(out, parts[3]), parts[5]);
}

/* take_access_log(lines, from, server as an Avro string) -> (the first line that is not taken, time of the last one that is) */
PyObject *events_take_access_log(Events *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3 || !PyList_Check(arguments[0]) || !PyBytes_Check(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "take_access_log takes a list of lines, from and server");
        return NULL;
    }
    Py_ssize_t from = PyLong_AsSsize_t(arguments[1]), lines = PyList_Size(arguments[0]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Part server = {(const unsigned char *)PyBytes_AsString(arguments[2]), (size_t)PyBytes_Size(arguments[2])};
    if (from < 0 || server.size > INT32_MAX / 2) {
        PyErr_SetString(PyExc_OverflowError, "no such line, or no such server");
        return NULL;
    }
    LastTime last = {{0}, -1};
    Py_ssize_t index = from;
    int64_t taken_ms = 0;
    for (; index < lines; index++) {
        PyObject *line = PyList_GetItem(arguments[0], index);
        if (!PyBytes_Check(line)) {
            PyErr_SetString(PyExc_TypeError, "a line is bytes");
            return NULL;
        }
        size_t size = (size_t)PyBytes_Size(line), most = size + server.size + MOST_OVERHEAD;
        if (size > INT32_MAX / 2) {
            break;
        }
        if (events_reserve(self, most) < 0) {
            return NULL;
        }
        unsigned char *at = self->free;
        unsigned char *behind = put_line(at, (const unsigned char *)PyBytes_AsString(line), size, server, &last);
        if (behind == NULL) {
            break;
        }
        Event event = {.timestamp_ms = last.time_ms, .body = at, .body_size = (uint32_t)(behind - at)};
        if (events_add(self, &event) < 0) {
            return NULL;
        }
        self->free = behind;
        taken_ms = last.time_ms;
    }
    return Py_BuildValue("nL", index, (long long)taken_ms);
}
