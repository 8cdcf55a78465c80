"""`python -m bench.tls`: what TLS costs the broker, beside Apache Kafka's TLS and our own plain text: same client, same run.

librdkafka writes and reads the same messages on each listener, in interleaved rounds. Then a thousand clients connect at once,
and another one asks on; its times are those of the storm. Prints JSON: medians, and the ratios. The certificate has an ECDSA key
(P-256); both sides agree on TLS 1.3."""

import argparse
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.raw_kafka import RawClient
from tests.support.tls_clients import shake_hands

from .drivers.build import built
from .drivers.run import Driven, drive
from .harness.child import free_port
from .peers.headrace import Headrace
from .peers.kafka import Kafka
from .peers.kafka_clients import SpeaksKafka, make_topic
from .peers.way import MESSAGE_BYTES

PRODUCER = ("acks=1", "queue.buffering.max.messages=1000000", "batch.num.messages=50", "linger.ms=1000")
STORM = 1_000
CONSUMER = ("group.id=bench", "enable.auto.commit=false", "queued.min.messages=1000000", "fetch.queue.backoff.ms=1")


def servers(folder: Path, authority: Authority) -> tuple[Headrace, Kafka, Mapping[str, int]]:
    """Return ours and Kafka, each with a second listener that has TLS, and the ports of these."""
    certificate, key = authority.issue("bench", hosts=("127.0.0.1", "localhost"))
    store = folder / "store.pem"
    store.write_bytes(key.read_bytes() + certificate.read_bytes())
    ports = {"Headrace": free_port(), "Kafka": free_port()}
    ours = Headrace(
        folder / "headrace",
        {
            "listeners": f"PLAINTEXT://127.0.0.1:1,SSL://127.0.0.1:{ports['Headrace']}",
            "advertised.listeners": f"SSL://localhost:{ports['Headrace']}",
            "ssl.keystore.location": str(store),
        },
    )
    theirs = Kafka(folder / "kafka")
    controller = free_port()
    plain = f"PLAINTEXT://127.0.0.1:{theirs.port}"
    theirs._settings |= {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"{plain},SSL://127.0.0.1:{ports['Kafka']},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{plain},SSL://localhost:{ports['Kafka']}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
    }
    return ours, theirs, ports


def run(driver: str, address: str, pids: Sequence[int], topic: str, count: int, words: Sequence[str]) -> Driven:
    command = [str(built(driver)), topic, str(count), str(MESSAGE_BYTES), f"bootstrap.servers={address}", *words]
    return drive(command, lambda: pids)


def storm(port: int, authority: Authority) -> dict[str, float]:
    """Return how long the requests of an open connection take while `STORM` others connect at once, and how long these take."""
    trust = ssl.create_default_context(cafile=str(authority.file))
    command = [sys.executable, "-m", "bench.tls", "--connect", str(port), str(authority.file)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    took_ms = []
    with RawClient(port, tls=trust, timeout_ms=60_000) as client:
        while child.poll() is None:
            began = time.perf_counter()
            client.ask(18, 3, {"client_software_name": "bench", "client_software_version": "1"})
            took_ms.append(1_000 * (time.perf_counter() - began))
            time.sleep(0.002)
    assert child.stdout is not None
    took_ms.sort()
    return {
        "connections": STORM,
        "all connected, s": float(child.stdout.read()),
        "requests of another meanwhile": len(took_ms),
        "p50, ms": round(took_ms[len(took_ms) // 2], 2),
        "p99, ms": round(took_ms[len(took_ms) * 99 // 100], 2),
    }


def connect(port: int, cafile: str) -> None:
    """Connect `STORM` times at once, and print how many seconds it took until all handshakes had ended."""
    context = ssl.create_default_context(cafile=cafile)
    began = time.perf_counter()
    shake_hands(context, (socket.create_connection(("127.0.0.1", port)) for _ in range(STORM)))
    print(time.perf_counter() - began)


def main() -> int:
    if sys.argv[1:2] == ["--connect"]:
        connect(int(sys.argv[2]), sys.argv[3])
        return 0
    parser = argparse.ArgumentParser(prog="python -m bench.tls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds, of which the medians are taken")
    parser.add_argument("--messages", type=int, default=500_000, help="messages of 200 bytes a round and listener")
    arguments = parser.parse_args()
    figures: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-tls-") as name:
        folder = Path(name)
        authority = Authority(folder / "authority")
        ours, theirs, ports = servers(folder, authority)
        trust = ("security.protocol=ssl", f"ssl.ca.location={authority.file}")
        ways: Mapping[str, tuple[SpeaksKafka, str, Sequence[str]]] = {
            "Headrace, plain": (ours, ours.bootstrap, ()),
            "Headrace, TLS": (ours, f"localhost:{ports['Headrace']}", trust),
            "Kafka, TLS": (theirs, f"localhost:{ports['Kafka']}", trust),
        }
        try:
            ours.start()
            theirs.start()
            for number in range(arguments.rounds + 1):
                for way, (server, address, security) in ways.items():
                    topic = f"round-{number}-{way.replace(', ', '-')}"
                    make_topic(server, topic)
                    words = (*PRODUCER, *security)
                    sent = run("rdkafka_produce", address, server.pids, topic, arguments.messages, words)
                    read = run("rdkafka_consume", address, server.pids, topic, arguments.messages, (*CONSUMER, *security))
                    print(f"round {number}: {way}: {sent.seconds:.2f} s, {read.seconds:.2f} s", file=sys.stderr)
                    if number:  # the first warms the JVM up
                        of = figures.setdefault(way, {})
                        for what, one in (("produce", sent), ("consume", read)):
                            of.setdefault(f"{what}, s", []).append(one.seconds)
                            of.setdefault(f"{what}, server's processor s", []).append(one.server_cpu_s)
            storms = {name: storm(port, authority) for name, port in ports.items()}
        finally:
            ours.stop()
            theirs.stop()
    medians = {way: {what: round(statistics.median(values), 3) for what, values in of.items()} for way, of in figures.items()}
    mine = medians["Headrace, TLS"]
    ratios = {
        f"{what}: {other} / Headrace, TLS": round(medians[other][what] / mine[what], 2)
        for other in ("Kafka, TLS", "Headrace, plain")
        for what in mine
    }
    result = {"load_average": round(os.getloadavg()[0], 1), "medians": medians, "ratios": ratios, "storms": storms}
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
