/* A share of messages each millisecond, each with the time it was due at, and how long each took. Needs driver.h before it. */

static long long wanted, warm, got;
static double *took_ms;

/* `per_s` messages for a second that is not counted, then for `seconds` that are. */
static void expect(long long per_s, long long seconds) {
    warm = per_s, wanted = per_s * seconds;
    took_ms = malloc((size_t)wanted * sizeof *took_ms);
}

static void message_came(double now, const void *payload) {
    double due;
    memcpy(&due, payload, sizeof due);
    if (got++ >= warm) took_ms[got - warm - 1] = (now - due) * 1e3;
}

/* Waits for the next millisecond and writes it to the payload: the time a message is due at, so a stalled producer hides no stall. */
static void next_tick(struct timespec *tick, void *payload) {
    tick->tv_nsec += 1000000;
    if (tick->tv_nsec >= 1000000000) tick->tv_sec++, tick->tv_nsec -= 1000000000;
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, tick, NULL);
    double due = (double)tick->tv_sec + (double)tick->tv_nsec / 1e9;
    memcpy(payload, &due, sizeof due);
}

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static double percentile(double part) {
    long long at = (long long)(part * (double)wanted);
    return took_ms[at < wanted ? at : wanted - 1];
}

/* `more` is further JSON, with a comma in front, or empty. */
static void report_latency(const char *more) {
    char all[512];
    qsort(took_ms, (size_t)wanted, sizeof *took_ms, ascending);
    snprintf(all, sizeof all, ", \"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f%s", percentile(0.5),
             percentile(0.99), percentile(0.999), took_ms[wanted - 1], more);
    report(wanted + warm, all);
}
