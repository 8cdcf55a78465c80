/* What every driver shares: a clock, its own CPU, the start signal, the result line.
 *
 * A driver connects and prepares, prints "ready", waits for a line on its standard input, does its work, and prints one JSON
 * object. Between the line and the object nothing but the measured work happens, so the bench can read the server's CPU at
 * exactly these two moments. A fault goes to standard error with exit code 1: a driver never reports half a run. */
#ifndef HEADRACE_BENCH_DRIVER_H
#define HEADRACE_BENCH_DRIVER_H

#include <dirent.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 256

static struct {
    double wall, cpu;
    int threads;
    int tid[MAX_THREADS];
    double used[MAX_THREADS];
} driver_start;

static inline void fail(const char *format, ...) {
    va_list words;
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    exit(1);
}

static inline double clock_s(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline double now_s(void) { return clock_s(CLOCK_MONOTONIC); }

/* CPU seconds of one thread of this process, or -1 when it is gone. */
static inline double thread_cpu_s(int tid) {
    char path[64];
    unsigned long long ns;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    int found = fscanf(file, "%llu", &ns);
    fclose(file);
    return found == 1 ? (double)ns / 1e9 : -1;
}

static inline void note_threads(void) {
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    driver_start.threads = 0;
    while (folder && (entry = readdir(folder)) && driver_start.threads < MAX_THREADS) {
        int tid = atoi(entry->d_name);
        if (tid <= 0) continue;
        driver_start.tid[driver_start.threads] = tid;
        driver_start.used[driver_start.threads++] = thread_cpu_s(tid);
    }
    if (folder) closedir(folder);
}

/* CPU seconds of the thread that worked most since the start. */
static inline double busiest_thread_s(void) {
    double most = 0;
    for (int i = 0; i < driver_start.threads; i++) {
        double used = thread_cpu_s(driver_start.tid[i]) - driver_start.used[i];
        if (used > most) most = used;
    }
    return most;
}

static inline void wait_for_go(void) {
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) fail("no start signal");
    note_threads();
    driver_start.cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    driver_start.wall = now_s();
}

/* Print the result: `count` units done in the time since the start signal, and `more`: further JSON members with a leading comma. */
static inline void report(long long count, const char *more) {
    double wall = now_s() - driver_start.wall, cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID) - driver_start.cpu;
    printf("{\"count\": %lld, \"seconds\": %.6f, \"client_cpu_s\": %.6f, \"client_thread_s\": %.6f%s}\n", count, wall, cpu,
           busiest_thread_s(), more);
    fflush(stdout);
}

#endif
