"""How long a server takes from its launch to its first accepted message: a client retries until one is acknowledged."""

import time

from tests.support.raw_kafka import Closed, RawClient, batch

from ..harness.child import BenchFault
from ..peers.headrace import Headrace
from ..peers.kafka import Kafka


def seconds_until_accepted(server: Headrace | Kafka, topic: str, within_s: float = 170.0) -> float:
    """Launch the server's broker and return the seconds until it has acknowledged a message to partition 0 of `topic`."""
    began = time.perf_counter()
    server.launch_broker()
    records = batch(b"m" * 200)
    while True:
        took = time.perf_counter() - began
        try:
            with RawClient(server.port, timeout_ms=2_000) as client:
                while client.produce(topic, records, version=7).error_code:
                    time.sleep(0.002)
                    if time.perf_counter() - began > within_s:
                        break
                else:
                    return time.perf_counter() - began
        except (OSError, Closed):
            time.sleep(0.002)
        server.broker.assert_alive()
        if took > within_s:
            raise BenchFault(f"{server.name} did not accept a message within {within_s:.0f} s:\n{server.broker.tail()}")
