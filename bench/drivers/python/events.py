"""A driver in Python that logs typed events: `python -m bench.drivers.python.events '{"client": …, "count": …, …}'`.

The words are those of `Words`. Like the other drivers it prints "ready", waits for a line, works, and prints one JSON object. The
same events go through each client: ten fields, about 90 bytes of Avro. `seconds` and `client_cpu_s` last until everything is
acknowledged (where a broker is there to do so), `client_thread_s` is what the calls alone took of the caller's thread.
"""

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = {
    "type": "record",
    "name": "PageView",
    "namespace": "headrace.events",
    "fields": [
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "server", "type": "string"},
        {"name": "client_ip", "type": "string"},
        {"name": "method", "type": "string"},
        {"name": "path", "type": "string"},
        {"name": "status", "type": "int"},
        {"name": "size_bytes", "type": ["null", "long"], "default": None},
        {"name": "referrer", "type": ["null", "string"], "default": None},
        {"name": "user_agent", "type": ["null", "string"], "default": None},
        {"name": "duration_ms", "type": "double"},
    ],
}
SERVER = "web-1"
_KINDS = 1_000
_FLUSH_MS = 120_000
_CONFLUENT_POLLS_EVERY = 100

Call = Callable[[dict[str, Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What one run is to do."""

    client: str
    """`headrace`, `confluent` or `fastavro` (its writer alone: nothing is sent)."""
    count: int
    bootstrap: str = ""
    registry_url: str = ""
    topic: str = ""
    is_native: bool = False
    per_s: int = 0
    """Calls a second, at equal distances; 0: one after another."""
    burning_threads: int = 0
    """Threads beside the caller's that compute in Python."""
    kill_pid: int = 0
    kill_at: int = -1
    """Before this call the process `kill_pid` is killed; nothing is waited for at the end."""
    journal: str = ""
    """The folder of the journals; empty: events are sent from this process."""
    is_durable: bool = False


def events() -> list[dict[str, Any]]:
    """Return the events that are logged in turn, without server and time."""
    return [
        {
            "client_ip": f"10.0.{number % 250}.{number % 199}",
            "method": "GET",
            "path": f"/articles/{number:04d}",
            "status": 200,
            "size_bytes": 1_000 + 7 * number if number % 10 else None,
            "referrer": f"http://example.org/{number % 13}" if number % 3 else None,
            "user_agent": "Mozilla/5.0 (X11)",
            "duration_ms": number / 8,
        }
        for number in range(_KINDS)
    ]


def by_headrace(words: Words) -> tuple[Call, Callable[[], None]]:
    from headrace.runtime.native import native
    from headrace.sdk import EventLogger

    assert (native is not None) == words.is_native, "the run is to measure the other one"
    more: dict[str, Any] = {}
    if words.journal:
        from headrace.sdk.journal import JournalSettings

        more["journal"] = JournalSettings(root=Path(words.journal), is_durable=words.is_durable)
    else:
        more |= {"bootstrap": words.bootstrap, "registry_url": words.registry_url}
    logger = EventLogger(words.topic, SCHEMA, application="bench", server_name=SERVER, on_bad_event="raise", **more)
    log = logger.log

    def call(event: dict[str, Any]) -> None:
        if not log(event):
            raise SystemExit("an event was not taken")

    return call, lambda: logger.flush(_FLUSH_MS)


def by_confluent(words: Words) -> tuple[Call, Callable[[], None]]:
    from confluent_kafka import Producer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    serializer = AvroSerializer(SchemaRegistryClient({"url": words.registry_url}), json.dumps(SCHEMA))
    settings = {"linger.ms": 20, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000, "log_level": 2}
    producer = Producer({"bootstrap.servers": words.bootstrap, **settings})
    producer.list_topics(words.topic, timeout=20)
    context = SerializationContext(words.topic, MessageField.VALUE)
    topic, produce, poll = words.topic, producer.produce, producer.poll
    turn = 0

    def call(event: dict[str, Any]) -> None:
        nonlocal turn
        now_ms = time.time_ns() // 1_000_000
        produce(topic, serializer({**event, "server": SERVER, "event_time": now_ms}, context), timestamp=now_ms)
        turn += 1
        if turn % _CONFLUENT_POLLS_EVERY == 0:
            poll(0)

    def end() -> None:
        if left := producer.flush(_FLUSH_MS / 1000):
            raise SystemExit(f"{left} not acknowledged")

    call(events()[0])  # Asks the registry, which only the first call does.
    end()
    return call, end


def by_fastavro(words: Words) -> tuple[Call, Callable[[], None]]:
    import fastavro

    parsed = fastavro.parse_schema(SCHEMA)
    write = fastavro.schemaless_writer

    def call(event: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        write(out, parsed, {**event, "server": SERVER, "event_time": time.time_ns() // 1_000_000})
        return out.getvalue()

    return call, lambda: None


CLIENTS = {"headrace": by_headrace, "confluent": by_confluent, "fastavro": by_fastavro}


def in_turn(call: Call, words: Words) -> list[int]:
    """Call for each event; return each call's duration in ns where the calls are paced, nothing otherwise."""
    known = events()
    if not words.per_s and words.kill_at < 0:
        for number in range(words.count):
            call(known[number % _KINDS])
        return []
    took: list[int] = []
    clock = time.perf_counter_ns
    began = clock()
    for number in range(words.count):
        if words.per_s:
            left_ns = began + number * 1_000_000_000 // words.per_s - clock()
            if left_ns > 0:
                time.sleep(left_ns / 1e9)
        if number == words.kill_at:
            os.kill(words.kill_pid, signal.SIGKILL)
        event = known[number % _KINDS]
        at = clock()
        call(event)
        took.append(clock() - at)
    return took


def percentiles(took_ns: list[int]) -> dict[str, float]:
    """Return p50, p99 and p99.9 in microseconds."""
    ordered = sorted(took_ns)
    return {
        name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] / 1_000
        for name, share in (("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999))
        if ordered
    }


def _burn() -> None:
    number = 0
    while True:
        number = (number * 31 + 7) % 1_000_003


def main() -> None:
    words = Words(**json.loads(sys.argv[1]))
    os.environ["HEADRACE_NATIVE"] = "1" if words.is_native else "0"
    call, end = CLIENTS[words.client](words)
    warm_up = events()[: 100 if words.is_durable else None]
    for event in warm_up:
        call(event)  # Caches and connections are warm, as in an application that runs.
    end()
    for _ in range(words.burning_threads):
        threading.Thread(target=_burn, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()
    began, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
    took = in_turn(call, words)
    in_calls = time.thread_time() - thread
    if words.kill_at < 0:
        end()
    found = {
        "count": words.count,
        "logged": len(warm_up) + words.count,
        "seconds": time.perf_counter() - began,
        "client_cpu_s": time.process_time() - cpu,
        "client_thread_s": in_calls,
        **percentiles(took),
    }
    print(json.dumps(found), flush=True)
    os._exit(0)  # A client whose broker was killed would wait for it.


if __name__ == "__main__":
    main()
