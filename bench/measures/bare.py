"""How near the broker comes to the machine's limit: fetching against a bare sendfile loop, producing batches of 1 MB against a
bare loop of recv and write. Same bytes, same sizes, same loopback, same run.
"""

from contextlib import contextmanager

from ..drivers.build import built
from ..drivers.run import drive
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..peers import kafka_clients
from ..peers.kafka_clients import SpeaksKafka
from ..peers.makers import kafka_like
from ..peers.subjects import KAFKA, OURS

BARE = "bare loop"
FETCHING = "fetching, 1 MB a fetch"
PRODUCING = "producing, 1 MB a batch"
_FETCH_BYTES = 1_048_576
_OF_BARE = {"mb_per_s": "mb_per_s", "server_cpu_s_per_gb": "sender_cpu_s_per_gb"}
_RECORDS = 4_900
"""Of 200 bytes each: the most that fit Kafka's default limit of 1,048,588 bytes a batch."""


class Bare:
    """MB/s of the broker and of the bare loops."""

    name = "bare"
    title = "Against a bare loop on the same machine"
    needs = frozenset({OURS, KAFKA})
    warm_ups = 1
    at_most = 99

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        found: list[Case] = []
        seconds = 0.5 if servers.quick else 1.5
        batches = servers.scaled(600)
        topic = "bare-fetch"
        running = kafka_like(servers, (OURS, KAFKA))
        for name, server in running.items():
            kafka_clients.make_topic(server, topic)
            kafka_clients.raw_produce(server, topic, batch=50, count=servers.scaled(2_000_000), in_flight=200)
            found.append(_fetching(name, server, topic, seconds))
        log = kafka_clients.segments_of(running[OURS], topic)[0]

        def bare_sendfile(_: int) -> Figures:
            driven = drive([str(built("raw_fetch")), "--bare", str(log), str(_FETCH_BYTES), str(seconds)], lambda: [])
            return {name: float(driven.more[of]) for name, of in _OF_BARE.items()}

        how = "sendfile of the same file to the same reader, 1 MB at a time"
        found.append(Case(subject=BARE, shape=FETCHING, run=bare_sendfile, how=how))
        for name, server in running.items():
            found.append(_producing(name, server, batches))
        size = _request_bytes()

        def bare_receive(_: int) -> Figures:
            scratch = servers.folder / "bare-receive"
            driven = drive([str(built("bare_receive")), str(scratch), str(size), str(batches)], lambda: [])
            return {"mb_per_s": driven.more["mb_per_s"]}

        found.append(Case(subject=BARE, shape=PRODUCING, run=bare_receive, how="recv of a whole block, one write"))
        yield found
        for server in running.values():
            kafka_clients.delete_topic(server, topic)


def _request_bytes() -> int:
    """Return the approximate size of a request of `_RECORDS`: record framing is 8 to 10 bytes a message."""
    return _RECORDS * 210


def _fetching(name: str, server: SpeaksKafka, topic: str, seconds: float) -> Case:
    def run(_: int) -> Figures:
        words = ["127.0.0.1", str(server.port), topic, "0", str(_FETCH_BYTES), "2", str(seconds)]
        driven = drive([str(built("raw_fetch")), *words], lambda: server.pids)
        megabytes = driven.more["bytes"] / 1e6
        return {
            "mb_per_s": driven.more["mb_per_s"],
            "server_cpu_s_per_gb": driven.server_cpu_s / megabytes * 1e3,
            "server_cpu_s_per_million": driven.server_cpu_s / driven.count * 1e6,
        }

    return Case(subject=name, shape=FETCHING, run=run, how="raw C client, 2 fetches in flight")


def _producing(name: str, server: SpeaksKafka, batches: int) -> Case:
    def run(turn: int) -> Figures:
        topic = f"bare-produce-{turn}"
        kafka_clients.make_topic(server, topic)
        driven = kafka_clients.raw_produce(server, topic, batch=_RECORDS, count=_RECORDS * batches, in_flight=8)
        kafka_clients.delete_topic(server, topic)
        return {"mb_per_s": driven.more["mb_per_s"], "server_cpu_s_per_million": driven.server_cpu_s / driven.count * 1e6}

    return Case(subject=name, shape=PRODUCING, run=run, how="raw C client, 8 requests in flight")
