"""ZooKeeper goes away under a running broker and returns; hostile clients attack the broker meanwhile. Real processes."""

import random
import socket
import struct
from pathlib import Path
from select import select
from typing import Any

from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from tests.support.broker import BrokerProcess
from tests.support.processes import eventually
from tests.support.raw_kafka import RawClient, batch, frame
from tests.support.zookeeper import ZooKeeperProcess


def metadata(client: RawClient, name: str) -> Any:
    fields = {"include_cluster_authorized_operations": False, "include_topic_authorized_operations": False}
    return client.ask(3, 9, {"topics": [{"name": name}], "allow_auto_topic_creation": True, **fields}).topics[0]


def commit(client: RawClient, offset: int) -> ErrorCode:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    message = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    answer = client.ask(8, 8, {**message, "topics": [{"name": "clicks", "partitions": [partition]}]})
    return ErrorCode(int(answer.topics[0].partitions[0].error_code))


def test_without_zookeeper_known_topics_are_served_on_and_everything_works_when_it_is_back(
    own_zookeeper: ZooKeeperProcess, tmp_path: Path
) -> None:
    address = f"{own_zookeeper.address}/own"
    settings = {"zookeeper.session.timeout.ms": 1_000, "topic.creation.wait.ms": 200}
    with BrokerProcess(tmp_path / "broker", address, settings=settings) as broker:
        with RawClient(broker.port, timeout_ms=30_000) as client, RawClient(broker.port, timeout_ms=30_000) as other:
            metadata(client, "clicks")
            assert client.produce("clicks", batch(b"one")).error_code == 0
            assert commit(client, 5) is ErrorCode.NONE
            own_zookeeper.kill()
            assert client.produce("clicks", batch(b"two")).error_code == 0
            assert client.ask(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1_000}).error_code == 0
            assert metadata(client, "new").error_code == ErrorCode.LEADER_NOT_AVAILABLE
            waiting = control.encode_request(8, 8, commit_of_7())
            other.send(8, 8, waiting)
            for _ in range(20):
                assert len(client.fetch("clicks", 0).records or b"") > 0
            assert select([other.socket], [], [], 0)[0] == [], "the fetches were answered, the commit waits"
            error = control.decode_response(8, 8, other.receive(8, 8)[1]).topics[0].partitions[0].error_code
            assert ErrorCode(int(error)).retriable
            own_zookeeper.start()
            eventually(lambda: commit(client, 9) is ErrorCode.NONE, within_ms=40_000, what="commits durable again")
            eventually(lambda: metadata(client, "new").error_code == 0, within_ms=40_000, what="topics made again")
            assert len(client.fetch("clicks", 0).records or b"") > 100


def commit_of_7() -> dict[str, Any]:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
    message = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return {**message, "topics": [{"name": "clicks", "partitions": [partition]}]}


def rss_bytes(pid: int) -> int:
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def test_hostile_frames_cost_bounded_memory_and_nobody_else_notices(zookeeper_chroot: str, tmp_path: Path) -> None:
    chance = random.Random(20_261_121)
    settings = {"queued.max.request.bytes": 32 << 20}
    with BrokerProcess(tmp_path, zookeeper_chroot, settings=settings) as broker, RawClient(broker.port) as friend:
        metadata(friend, "clicks")
        before = rss_bytes(broker.pid)
        held: list[socket.socket] = []
        for number in range(300):
            stranger = socket.create_connection(("127.0.0.1", broker.port), timeout=10)
            try:
                stranger.sendall(hostile(chance))
            except OSError:
                pass
            held.append(stranger)
            if number % 20 == 0:
                assert friend.produce("clicks", batch(b"x")).error_code == 0
        assert rss_bytes(broker.pid) - before < 100 << 20
        for stranger in held:
            stranger.close()
        assert friend.fetch("clicks", 0).error_code == 0
        assert broker.log.count("frame_refused") < 60, "the log is rate-limited"
        assert "Traceback" not in broker.log


def hostile(chance: random.Random) -> bytes:
    kind = chance.randrange(6)
    if kind == 0:
        return struct.pack(">i", chance.choice([0, -1, -(2**31), 2**31 - 1, 5])) + chance.randbytes(50)
    if kind == 1:
        return chance.randbytes(chance.choice([3, 14, 500, 100_000]))
    if kind == 2:  # an honest Produce frame of 90 MiB, of which only 300 KB are sent
        return struct.pack(">ihhih", 90 << 20, 0, 9, 1, -1) + bytes(300_000)
    if kind == 3:  # huge arrays in small frames
        return frame(chance.choice([0, 1, 2, 3, 8, 9, 19, 20, 32]), chance.randrange(10), 1, b"\xff\xff\xff\xff\x0f" * 20)
    if kind == 4:
        body = struct.pack(">i", chance.choice([2**31 - 1, 2**24, -5])) * 5
        return frame(chance.choice([0, 1, 2, 3, 8, 9, 19]), chance.randrange(5), 1, body)
    return frame(chance.randrange(100), chance.randrange(20), 1, chance.randbytes(chance.randrange(200)))
