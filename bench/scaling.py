"""`python -m bench.scaling`: the tables of docs/SCALING.md. Plain arithmetic over unit costs that were measured elsewhere.

Each cost names the page where its measurement stands, and the words in which it is there; a test looks them up, and compares
the page with what is computed here. It measures nothing.
"""

from dataclasses import dataclass
from math import ceil

BENCHMARKS = "docs/BENCHMARKS.md"
JOURNALS = "docs/decisions/0026-the-agent.md"
READERS = "docs/decisions/0037-readers-of-logs-in-c-and-a-far-source.md"
ROWS = "docs/decisions/0034-rows-stay-in-the-task-that-reads-them.md"
TOPICS = "docs/decisions/0036-one-application-for-all-topics.md"
AUDIT = "docs/experiments/0013-the-audit-at-ten-thousand-topics.md"
GROWTH = "docs/GROWTH.md"
RESTART = "docs/decisions/0014-a-restart-that-does-not-read-the-log.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One measured unit cost."""

    what: str
    value: float
    unit: str
    source: str
    words: str
    """As they are in the source."""


LOGGER = Cost(what="an event logged, native SDK", value=5.4, unit="µs", source=BENCHMARKS, words="5.4 against 27.7 µs")
AGENT = Cost(what="an event shipped from a journal", value=1.38, unit="µs", source=JOURNALS, words="0.99 and 1.38 µs an event")
PRODUCE = Cost(
    what="an event appended, 10,000 partitions a broker, 50 a batch",
    value=0.743,
    unit="µs",
    source=BENCHMARKS,
    words="| Headrace | 10,000 partitions | 1.33 M | 265 | 0.743 |",
)
FETCH = Cost(
    what="an event sent to one reader, 50 a batch", value=0.185, unit="µs", source=BENCHMARKS, words="0.185 s/M, 1.63 × Kafka"
)
DISK = Cost(
    what="a 200-byte event in the log, 50 a batch",
    value=210.2,
    unit="bytes",
    source=BENCHMARKS,
    words="| 0.314 | 121% | 43% | 210.2 |",
)
MIRROR = Cost(what="mirrored in a processor second, 5 KB a batch", value=359, unit="MB", source=READERS, words="359 against 19.2")
COUNT = Cost(
    what="a batch of 5.3 KB split and checked, counted, reported",
    value=0.9 + 2.3 + 0.9,
    unit="µs",
    source=READERS,
    words="0.9, 2.3, 0.9 µs",
)
ROW = Cost(what="a row loaded, warm: 1.9 s for 300,000", value=1.9 / 0.3, unit="µs", source=ROWS, words="1.8 to 2.0 s now")
FILE = Cost(what="a row of ten fields in Parquet", value=23, unit="bytes", source=ROWS, words="23 in ours")
TOPIC_LOAD = Cost(
    what="a topic with something new, in a run over 1,000", value=263 / 1_000, unit="s", source=TOPICS, words="| 263 s |"
)
TOPIC_LOOK = Cost(what="a topic with nothing new", value=28 / 1_000, unit="s", source=TOPICS, words="| 28 s;")
TOPIC_AUDIT = Cost(
    what="a topic in the audit's store, six tiers, 90 days", value=0.85, unit="MB", source=AUDIT, words="8.5 GB of SQLite"
)
TOPIC_AUDIT_MEMORY = Cost(what="the same in its memory", value=26.4, unit="KB", source=AUDIT, words="264, 271 MB")
PARTITION = Cost(
    what="a partition in a broker's memory", value=6.5, unit="KB", source=BENCHMARKS, words="| 0.743 | 10% | 99% | 1.51 | 106 |"
)
LOG_MEMORY = Cost(what="a GB of closed segments, in a broker's memory", value=1.5, unit="MB", source=RESTART, words="1.5 MB a GB")
IDLE_BROKERS = Cost(
    what="1,000 idle topics, on a live and an offline broker",
    value=0.17,
    unit="% of a core",
    source=GROWTH,
    words="| 1.6 | 0.17 |",
)
IDLE_MIRROR = Cost(what="the same, in the mirror", value=0.21, unit="% of a core", source=GROWTH, words="| 1.45 | 0.21 |")
IDLE_AUDIT = Cost(what="the same, in the audit", value=0.11, unit="% of a core", source=GROWTH, words="| 1.15 | 0.11 |")
BEAT = Cost(
    what="a beat of an idle logger, in the audit, every 5 s",
    value=20.2,
    unit="µs",
    source=GROWTH,
    words="audit, for a beat, 10,000 loggers, µs | 20.2 |",
)
COSTS = (
    *(LOGGER, AGENT, PRODUCE, FETCH, MIRROR, COUNT, ROW, DISK, FILE, LOG_MEMORY),
    *(PARTITION, TOPIC_LOAD, TOPIC_LOOK, TOPIC_AUDIT, TOPIC_AUDIT_MEMORY),
    *(IDLE_BROKERS, IDLE_MIRROR, IDLE_AUDIT, BEAT),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is to be carried. What is published is said on the page; the rest are assumptions, the same for both."""

    name: str
    events_per_s: float
    topics: int
    partitions_per_topic: int = 10
    event_bytes: int = 200
    readers: float = 5.5
    """Of the live cluster, for each event: the paper's 55 billion reads for 10 billion writes."""
    peak: float = 2.0
    """Above the mean; 1 where the published figure is the peak."""
    batch_bytes: int = 5_300
    live_days: float = 4
    busy: float = 0.5
    """Of a core at the peak: the rest is for restarts, retries and neighbours."""


THEN = Load(name="2012", events_per_s=172_000, topics=1_000, peak=1.0)
NOW = Load(name="now", events_per_s=32e12 / 86_400, topics=400_000)


def cores(load: Load, us_per_event: float) -> float:
    """Return the cores for so much processor time an event, at the peak and no busier than `load.busy`."""
    return load.events_per_s * load.peak * us_per_event / 1e6 / load.busy


def figures(load: Load) -> list[tuple[str, float, str]]:
    """Return what is needed at each tier: what, how much, in which unit."""
    mb_per_s = load.events_per_s * load.peak * load.event_bytes / 1e6
    audit_us = COUNT.value * load.event_bytes / load.batch_bytes
    partitions = load.topics * load.partitions_per_topic
    live_bytes = load.events_per_s * DISK.value * 86_400 * load.live_days
    broker_cores = cores(load, PRODUCE.value + load.readers * FETCH.value)
    brokers = ceil(broker_cores)
    idle = IDLE_BROKERS.value + IDLE_MIRROR.value + IDLE_AUDIT.value
    return [
        ("events a second, at the peak", load.events_per_s * load.peak, "/s"),
        ("into the live cluster", mb_per_s, "MB/s"),
        ("applications: loggers", cores(load, LOGGER.value), "cores"),
        ("hosts: agents, where all is journaled", cores(load, AGENT.value), "cores"),
        ("live brokers (one core each)", brokers, "brokers"),
        ("live: out to its readers", mb_per_s * load.readers, "MB/s"),
        ("live: a broker's link, out", mb_per_s * load.readers / brokers, "MB/s"),
        (f"live: disk for {load.live_days:g} days", live_bytes / 1e12, "TB"),
        ("live: partitions a broker", partitions / brokers, ""),
        ("live: a broker's memory for partitions and logs", _broker_mb(partitions / brokers, live_bytes / brokers), "MB"),
        ("mirror", mb_per_s / MIRROR.value / load.busy, "cores"),
        ("offline brokers: mirror in, loads and audit out", ceil(cores(load, PRODUCE.value + 2 * FETCH.value)), "brokers"),
        ("audit: both logs read back", cores(load, 2 * audit_us), "cores"),
        ("audit: its store", load.topics * TOPIC_AUDIT.value / 1e3, "GB"),
        ("audit: its memory", load.topics * TOPIC_AUDIT_MEMORY.value / 1e6, "GB"),
        ("loads: Spark's tasks", cores(load, ROW.value), "cores"),
        ("loads: one run over all topics, each with something new", load.topics * TOPIC_LOAD.value / 3_600, "hours"),
        ("loads: one look at all topics with nothing new", load.topics * TOPIC_LOOK.value / 3_600, "hours"),
        ("brokers, mirror and audit, while all topics are idle", load.topics / 1e3 * idle / 100, "cores"),
        ("warehouse: Parquet a day", load.events_per_s * 86_400 * FILE.value / 1e12, "TB"),
    ]


def _broker_mb(partitions: float, log_bytes: float) -> float:
    return 41 + partitions * PARTITION.value / 1e3 + log_bytes / 1e9 * LOG_MEMORY.value


def limits() -> list[tuple[str, float]]:
    """Return up to how many events a second one process of each kind goes, its core full."""
    load = THEN
    return [
        ("a live broker, 5.5 readers", 1e6 / (PRODUCE.value + load.readers * FETCH.value)),
        ("a mirror", MIRROR.value * 1e6 / load.event_bytes),
        ("the audit", 1e6 / (2 * COUNT.value * load.event_bytes / load.batch_bytes)),
        ("an agent", 1e6 / AGENT.value),
        ("a core of Spark's tasks", 1e6 / ROW.value),
    ]


def number(value: float) -> str:
    """Return the number with two digits that count, and commas."""
    if value >= 10:
        digits = len(str(int(value)))
        return f"{round(value, min(0, 2 - digits)):,.0f}"
    return f"{value:.2g}"


def page() -> str:
    """Return the computed part of docs/SCALING.md."""
    lines = ["| unit | cost | measured in |", "|---|---|---|"]
    lines += [f"| {cost.what} | {number(cost.value)} {cost.unit} | `{cost.source}` |" for cost in COSTS]
    lines += ["", f"| needed | {THEN.name} | {NOW.name} |", "|---|---|---|"]
    for (what, then, unit), (_, now, _) in zip(figures(THEN), figures(NOW), strict=True):
        lines.append(f"| {what} | {number(then)} {unit} | {number(now)} {unit} |".replace(" /s", "/s").replace("  |", " |"))
    lines += ["", "| one process, its core full | events a second |", "|---|---|"]
    lines += [f"| {what} | {number(value)} |" for what, value in limits()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
