"""Loggers made before a server forks its workers: gunicorn with `--preload`, Celery's prefork pool. Each worker continues as a
run of its own, and nothing is lost or doubled when workers retire, are replaced, or are killed.

What was taken is what the servers answered their own clients; what arrived is read by Confluent's client.
"""

import http.client
import json
import os
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from celery import Celery
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster
from tests.integration.sdk.identities import acknowledged, reports_of, stored
from tests.support.agent import AgentProcess
from tests.support.live_side import LiveSide
from tests.support.processes import Process, accepts, eventually, free_port

SHOP = """
import json
import os
from pathlib import Path

from celery import Celery
from headrace.sdk import EventLogger, event_schema

FIELDS = [{"name": "number", "type": "int"}, {"name": "worker", "type": "int"}]
journal = os.environ.get("SHOP_JOURNAL")
where = {"journal": Path(journal)} if journal else {
    "bootstrap": os.environ["SHOP_BOOTSTRAP"], "registry_url": os.environ["SHOP_REGISTRY"],
    "linger_ms": 600_000,  # a worker sends at its end
}
clicks = EventLogger(os.environ["SHOP_TOPIC"], event_schema("Click", FIELDS), application="shop", **where)


def web(environ, start_response):
    taken = clicks.log({"number": int(environ["PATH_INFO"][1:]), "worker": os.getpid()})
    start_response("200 OK" if taken else "503 Service Unavailable", [])
    return [str(os.getpid()).encode()]


tasks = Celery("shop", broker="filesystem://")
tasks.conf.broker_transport_options = json.loads(os.environ["SHOP_QUEUE"])


@tasks.task(name="click")
def click(number):
    assert clicks.log({"number": number, "worker": os.getpid()})
    with open(os.environ["SHOP_DONE"], "a") as done:
        done.write(".")
"""
PARTITIONS = 3
REQUESTS = 400
CLIENTS = 4
TASKS = 200


class Shop:
    """The application above, in a folder of its own."""

    def __init__(self, folder: Path, live: LiveSide, cluster: Cluster, journals: Path | None) -> None:
        self.topic = f"clicks-{uuid.uuid4().hex[:8]}"
        create_topic(cluster, self.topic, PARTITIONS, {})
        self.control = folder / "control"
        queue = folder / "queue"
        queue.mkdir()
        self.queue = {"data_folder_in": str(queue), "data_folder_out": str(queue), "control_folder": str(self.control)}
        self.done = folder / "done"
        """A byte for each task that was done."""
        self.done.touch()
        self._folder = folder
        self._live = live
        (folder / "shop.py").write_text(SHOP)
        self._environment = {
            "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
            "SHOP_TOPIC": self.topic,
            "SHOP_QUEUE": json.dumps(self.queue),
            "SHOP_DONE": str(self.done),
            "SHOP_BOOTSTRAP": live.bootstrap,
            "SHOP_REGISTRY": live.registry_url,
            **({} if journals is None else {"SHOP_JOURNAL": str(journals)}),
        }

    def process(self, *words: str) -> Process:
        return Process([sys.executable, "-m", *words], self._folder / "log", self._environment)

    def read(self) -> list[tuple[int, int]]:
        """Return what the cluster holds: each event's number and the worker that logged it."""
        reading = AvroDeserializer(SchemaRegistryClient({"url": self._live.registry_url}))
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._live.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])
        found: list[tuple[int, int]] = []
        ends = 0
        deadline = time.monotonic() + 20
        try:
            while ends < PARTITIONS:
                assert time.monotonic() < deadline
                for message in consumer.consume(500, timeout=0.1):  # it waits for all 500
                    if message.error() is not None:
                        assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
                        ends += 1
                        continue
                    event = reading(message.value(), SerializationContext(self.topic, MessageField.VALUE))
                    found.append((event["number"], event["worker"]))  # type: ignore[index]
        finally:
            consumer.close()
        return found


@pytest.fixture
def agent(live: LiveSide, tmp_path: Path) -> Iterator[AgentProcess]:
    running = AgentProcess(tmp_path / "agent", live)
    yield running.start()
    running.process.kill()


@pytest.fixture
def journaling(live: LiveSide, cluster: Cluster, tmp_path: Path, agent: AgentProcess) -> Shop:
    """The application with journals, and an agent that ships them."""
    return Shop(tmp_path, live, cluster, agent.journals)


@pytest.fixture(params=["direct", "journal"])
def shop(request: pytest.FixtureRequest, live: LiveSide, cluster: Cluster, tmp_path: Path) -> Shop:
    """The application, with either transport."""
    if request.param == "direct":
        return Shop(tmp_path, live, cluster, None)
    made: Shop = request.getfixturevalue("journaling")
    return made


def ask_all(port: int, on_answer: Callable[[int], None]) -> set[int]:
    """Ask for each number once, by several clients; return those that were answered 200. `on_answer` gets the worker."""
    numbers = iter(range(REQUESTS))
    lock = threading.Lock()
    answered: set[int] = set()

    def ask() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                connection.request("GET", f"/{number}")
                answer = connection.getresponse()
                worker = int(answer.read())
            except (OSError, http.client.HTTPException):
                continue  # Its worker was killed: whether the event was taken is not known.
            finally:
                connection.close()
            with lock:
                if answer.status == 200:
                    answered.add(number)
                on_answer(worker)

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return answered


def check(shop: Shop, cluster: Cluster, answered: set[int]) -> None:
    """All that was answered arrived once, from several workers; and the books of the runs say just what is there."""
    eventually(lambda: len(shop.read()) >= len(answered), within_ms=60_000, every_ms=200, what="all events arrived")
    held = shop.read()
    assert max(Counter(number for number, _ in held).values()) == 1
    assert answered <= {number for number, _ in held} <= set(range(REQUESTS))
    assert len({worker for _, worker in held}) >= 3
    # A run is one process's: none writes under another one's identity.
    eventually(
        lambda: sorted(acknowledged(reports_of(cluster, shop.topic))) == sorted(stored(cluster, shop.topic)),
        within_ms=60_000,
        every_ms=200,
        what="the producers' books hold what the log holds",
    )
    assert len({identity[2] for identity in stored(cluster, shop.topic)}) >= 3


def serve(shop: Shop, *words: str, on_answer: Callable[[int], None] = lambda worker: None) -> set[int]:
    """Run gunicorn until all clients have asked; return the numbers that were answered 200."""
    port = free_port()
    bind = ["--bind", f"127.0.0.1:{port}", "--log-level", "warning"]
    server = shop.process("gunicorn", "--preload", "--workers", "3", *bind, *words, "shop:web")
    server.start()
    try:
        eventually(lambda: accepts(port), what="gunicorn")
        answered = ask_all(port, on_answer)
        assert server.stop(30_000) == 0, server.output()
    finally:
        server.kill()
    return answered


def test_gunicorn_s_workers_go_on_with_a_logger_that_was_made_before_the_fork(shop: Shop, cluster: Cluster) -> None:
    answered = serve(shop, "--max-requests", "60")
    assert len(answered) == REQUESTS
    check(shop, cluster, answered)


def test_gunicorn_s_workers_killed_under_load_lose_nothing_that_their_journals_took(journaling: Shop, cluster: Cluster) -> None:
    seen: Counter[int] = Counter()

    def kill_some(worker: int) -> None:
        seen[worker] += 1
        if seen.total() in (100, 200, 300):
            os.kill(worker, signal.SIGKILL)

    answered = serve(journaling, on_answer=kill_some)
    assert len(answered) >= REQUESTS - 3 * CLIENTS
    check(journaling, cluster, answered)


def test_celery_s_workers_go_on_with_a_logger_that_was_made_before_the_fork(shop: Shop, cluster: Cluster) -> None:
    """They end by `os._exit`: what they hold is flushed anyway."""
    words = ["--pool", "prefork", "--concurrency", "3", "--max-tasks-per-child", "25", "--loglevel", "WARNING"]
    server = shop.process("celery", "-A", "shop:tasks", "worker", *words, "--without-gossip", "--without-mingle")
    sender = Celery("sender", broker="filesystem://")
    sender.conf.broker_transport_options = shop.queue
    for number in range(TASKS):
        sender.send_task("click", [number])
    server.start()
    try:
        eventually(lambda: shop.done.stat().st_size == TASKS, within_ms=60_000, what="all tasks done")
        os.kill(server.pid, signal.SIGTERM)  # the worker alone, which ends its pool
        assert server.wait(60_000) == 0
    finally:
        server.kill()
    check(shop, cluster, set(range(TASKS)))
    assert [*shop.control.glob("celery*.exchange")], "Celery's books lie where the test was started"
