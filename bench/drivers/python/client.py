"""A driver in Python: `python -m bench.drivers.python.client CLIENT produce|consume PORT TOPIC COUNT SIZE`.

Like the C drivers it prints "ready", waits for a line, works, and prints one JSON object. Each client is used as its own
documentation advises for throughput; all of them wait for the messages' acknowledgements.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

_UNTIL_S = 120.0
_ROUND = 1_000


def _go() -> tuple[float, float]:
    print("ready", flush=True)
    sys.stdin.readline()
    return time.perf_counter(), time.process_time()


def _report(began: tuple[float, float], count: int) -> None:
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    print(json.dumps({"count": count, "seconds": wall, "client_cpu_s": cpu, "client_thread_s": cpu}), flush=True)


def confluent_produce(port: int, topic: str, count: int, payload: bytes) -> None:
    from confluent_kafka import Producer

    refused: list[str] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "acks": 1, "queue.buffering.max.messages": 1_000_000})
    producer.list_topics(topic, timeout=20)
    began = _go()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, payload, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.01)
        if number % _ROUND == 0:
            producer.poll(0)
    left = producer.flush(_UNTIL_S)
    if left or refused:
        raise SystemExit(f"{left} not acknowledged, {len(refused)} refused: {refused[:1]}")
    _report(began, count)


def confluent_consume(port: int, topic: str, count: int, payload: bytes) -> None:
    from confluent_kafka import Consumer, TopicPartition

    settings = {"group.id": "bench", "enable.auto.commit": False, "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{port}", **settings})
    consumer.list_topics(topic, timeout=20)
    began = _go()
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = 0
    while got < count and time.perf_counter() - began[0] < _UNTIL_S:
        got += len(consumer.consume(10_000, timeout=1.0))
    _must_be(got, count)
    _report(began, got)


def pika_produce(port: int, topic: str, count: int, payload: bytes) -> None:
    import pika  # type: ignore[import-untyped]

    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    channel.queue_declare(topic, durable=True)
    persistent = pika.BasicProperties(delivery_mode=2)
    began = _go()
    for _ in range(count):
        channel.basic_publish("", topic, payload, persistent)
    channel.queue_declare(topic, passive=True)
    _report(began, count)


def pika_consume(port: int, topic: str, count: int, payload: bytes) -> None:
    import pika

    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
    channel = connection.channel()
    got = 0

    def taken(*_: Any) -> None:
        nonlocal got
        got += 1
        if got == count:
            channel.stop_consuming()

    began = _go()
    channel.basic_consume(topic, taken, auto_ack=True)
    channel.start_consuming()
    _report(began, got)


def nats_produce(port: int, topic: str, count: int, payload: bytes) -> None:
    async def work() -> None:
        import nats

        connection = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = connection.jetstream()
        await stream.add_stream(name=topic, subjects=[topic])
        began = _go()
        for at in range(0, count, _ROUND):
            await asyncio.gather(*(stream.publish(topic, payload) for _ in range(min(_ROUND, count - at))))
        _report(began, count)
        await connection.close()

    asyncio.run(work())


def nats_consume(port: int, topic: str, count: int, payload: bytes) -> None:
    async def work() -> None:
        import nats
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        connection = await nats.connect(f"nats://127.0.0.1:{port}", pending_size=1 << 28)
        stream = connection.jetstream()
        everything = asyncio.Event()
        got = 0

        async def taken(_: Any) -> None:
            nonlocal got
            got += 1
            if got == count:
                everything.set()

        config = ConsumerConfig(ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.ALL)
        began = _go()
        await stream.subscribe(topic, cb=taken, config=config, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await asyncio.wait_for(everything.wait(), _UNTIL_S)
        _report(began, got)
        await connection.close()

    asyncio.run(work())


def redis_produce(port: int, topic: str, count: int, payload: bytes) -> None:
    import redis

    server = redis.Redis(port=port)
    server.ping()
    began = _go()
    for at in range(0, count, _ROUND):
        pipeline = server.pipeline(transaction=False)
        for _ in range(min(_ROUND, count - at)):
            pipeline.xadd(topic, {"m": payload})
        pipeline.execute()
    _report(began, count)


def redis_consume(port: int, topic: str, count: int, payload: bytes) -> None:
    import redis

    server = redis.Redis(port=port)
    server.xgroup_create(topic, "bench", "0")
    began = _go()
    got = 0
    while got < count and time.perf_counter() - began[0] < _UNTIL_S:
        answer: Any = server.xreadgroup("bench", "one", {topic: ">"}, count=_ROUND, noack=True)
        streams = answer.items() if isinstance(answer, dict) else answer
        for _, entries in streams:
            # Of Redis' two protocol versions one nests the entries of a stream one list deeper.
            got += (
                len(entries[0])
                if entries and isinstance(entries[0], list) and not isinstance(entries[0][0], bytes)
                else len(entries)
            )
    _must_be(got, count)
    _report(began, got)


def _must_be(got: int, count: int) -> None:
    if got != count:
        raise SystemExit(f"{got} messages came, not {count}")


TASKS: dict[tuple[str, str], Callable[[int, str, int, bytes], None]] = {
    ("confluent-kafka", "produce"): confluent_produce,
    ("confluent-kafka", "consume"): confluent_consume,
    ("pika", "produce"): pika_produce,
    ("pika", "consume"): pika_consume,
    ("nats-py", "produce"): nats_produce,
    ("nats-py", "consume"): nats_consume,
    ("redis", "produce"): redis_produce,
    ("redis", "consume"): redis_consume,
}
"""(Client's package, task) → function."""


def main() -> None:
    client, task, port, topic, count, size = sys.argv[1:]
    TASKS[client, task](int(port), topic, int(count), b"m" * int(size))


if __name__ == "__main__":
    main()
