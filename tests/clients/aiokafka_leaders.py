"""aiokafka, in its own environment: sends numbers, one after the other, and reads them in a group, while the test kills the
partition's leader. Prints what it has read, as the programs in other languages do.
"""

import asyncio
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

PAUSE_S = 0.003


async def send(bootstrap: str, topic: str, count: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, acks="all")
    await producer.start()
    last = -1
    for number in range(count):
        sent = await producer.send_and_wait(topic, b"%d" % number, partition=0)
        if sent.offset <= last:
            raise SystemExit(f"number {number} has offset {sent.offset} after {last}")
        last = sent.offset
        await asyncio.sleep(PAUSE_S)
    await producer.stop()


async def read(bootstrap: str, topic: str, count: int) -> int:
    reader = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )
    await reader.start()
    partition = TopicPartition(topic, 0)
    seen: set[int] = set()
    committed = 0
    while len(seen) < count:
        messages = (await reader.getmany(timeout_ms=200)).get(partition, [])
        for message in messages:
            if message.offset < committed:
                raise SystemExit(f"offset {message.offset} after a commit of {committed}")
            seen.add(int(message.value))
            if len(seen) == 100:
                print("read 100", flush=True)
        if messages:
            committed = messages[-1].offset + 1
            await commit(reader, partition, committed)
    await reader.stop()
    return len(seen)


async def commit(reader: AIOKafkaConsumer, partition: TopicPartition, offset: int) -> None:
    """Commit; during a rebalance the offset is committed with the next messages."""
    try:
        await reader.commit({partition: offset})
    except Exception as error:
        print(f"not committed: {error!r}", flush=True)


async def main() -> None:
    bootstrap, topic, count = os.environ["BOOTSTRAP"], os.environ["TOPIC"], int(os.environ["COUNT"])
    _, found = await asyncio.gather(send(bootstrap, topic, count), read(bootstrap, topic, count))
    print(f"sent {count}, read {found} of them", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
