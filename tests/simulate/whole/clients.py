"""Clients: idempotent producers with acks=all, readers, members of a group. They note what they do in the history.

They speak the protocol by themselves, without `headrace.client`: only the encoding of messages is shared.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.wire.batch.record_batch import BatchBuilder, crc_matches, iter_batches, iter_records
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control, fetch, produce

from .cluster import PORT, TOPIC, Cluster
from .history import Acknowledged, Committed, Found, History, Owned, Refused, Seen, Sent
from .network import SimulatedSocket
from .scheduler import Process, SimulatedThread, Simulation

CLIENTS = "clients"
PARTITIONS = 2
GROUP = "readers"
ANSWER_S = 3.0
LIST_OFFSETS, EARLIEST = 2, -2
PAUSE_MS = 60.0
SESSION_MS = 2_000
STRAYS = 0.2
IDLE_AT_END = 3
DUPLICATE = (ErrorCode.DUPLICATE_SEQUENCE_NUMBER,)
LOST_PLACE = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)


class Unanswered(Exception):
    """There is no answer: what was asked may have been done."""


class Connections:
    """One client's connections, one a broker, kept while they work."""

    def __init__(self, cluster: Cluster, process: Process) -> None:
        self.cluster, self.process = cluster, process
        self._open: dict[int, SimulatedSocket] = {}
        self._leaders: dict[int, int] = {}
        self._correlation_id = 0

    @property
    def sim(self) -> Simulation:
        return self.process.sim

    def request(self, broker_id: int, api_key: int, version: int, body: bytes) -> memoryview:
        """Return the answer's body. Raises Unanswered."""
        try:
            connection = self._open.get(broker_id)
            if connection is None:
                connection = self.cluster.network.connect(self.process, f"broker-{broker_id}", PORT, 1.0)
                connection.settimeout(ANSWER_S)
                self._open[broker_id] = connection
            self._correlation_id += 1
            content = control.write_request_header(api_key, version, self._correlation_id, self.process.name) + body
            connection.sendall(struct.pack(">i", len(content)) + content)
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            answer = _exactly(connection, size)
        except OSError as error:
            broken = self._open.pop(broker_id, None)
            if broken is not None:
                broken.close()
            raise Unanswered(str(error)) from error
        correlation_id, at = control.read_response_header(api_key, version, answer)
        assert correlation_id == self._correlation_id, "an answer to another request"
        return memoryview(answer)[at:]

    def ask(self, broker_id: int, api_key: int, version: int, message: Mapping[str, Any]) -> Any:
        body = self.request(broker_id, api_key, version, control.encode_request(api_key, version, message))
        return control.decode_response(api_key, version, body)

    def any_broker(self) -> int:
        return self.sim.chance.choice(self.cluster.brokers)

    def leader(self, partition: int) -> int | None:
        """Return the leader, asked for if none is known."""
        if partition not in self._leaders:
            message = {
                "topics": [{"name": TOPIC}],
                "allow_auto_topic_creation": False,
                "include_cluster_authorized_operations": False,
                "include_topic_authorized_operations": False,
            }
            try:
                answer = self.ask(self.any_broker(), 3, 9, message)
            except Unanswered:
                return None
            for topic in answer.topics:
                for one in topic.partitions:
                    if int(one.leader_id) > 0:
                        self._leaders[int(one.partition_index)] = int(one.leader_id)
        return self._leaders.get(partition)

    def forget_leader(self, partition: int) -> None:
        self._leaders.pop(partition, None)


class Client:
    """A thread of the clients' machine. `is_ending`: begin nothing new."""

    def __init__(self, cluster: Cluster, process: Process, history: History, name: str) -> None:
        self.name, self.history, self.sim = name, history, process.sim
        self.connections = Connections(cluster, process)
        self.is_ending = False
        self.is_done = False
        SimulatedThread(process, self._run, name).start()

    def _run(self) -> None:
        self.work()
        self.is_done = True

    def work(self) -> None:
        raise NotImplementedError

    def pause(self, ms: float = PAUSE_MS) -> None:
        self.sim.sleep(self.sim.chance.uniform(0.2, 1.8) * ms)


class Producer(Client):
    """Sends batches one after the other, each until it is acknowledged, to both partitions in turn."""

    def work(self) -> None:
        numbers = dict.fromkeys(range(PARTITIONS), 0)
        producer_id: int | None = None
        sequences = dict.fromkeys(range(PARTITIONS), 0)
        while not self.is_ending:
            if producer_id is None:
                producer_id = self._new_id()
                sequences = dict.fromkeys(range(PARTITIONS), 0)
                if producer_id is None:
                    self.pause()
                    continue
            partition = self.sim.chance.randrange(PARTITIONS)
            values = []
            for _ in range(self.sim.chance.choice((1, 1, 2, 5))):
                value = f"{self.name}:{partition}:{numbers[partition]}".encode().ljust(self.sim.chance.choice((20, 200)), b".")
                self.history.sent.append(Sent(self.name, numbers[partition], partition, value))
                numbers[partition] += 1
                values.append(value)
            if self._send(producer_id, partition, sequences[partition], values):
                sequences[partition] += len(values)
            else:
                producer_id = None
            self.pause(60)

    def _new_id(self) -> int | None:
        message = {"transactional_id": None, "transaction_timeout_ms": 1_000}
        try:
            answer = self.connections.ask(self.connections.any_broker(), 22, 4, message)
        except Unanswered:
            return None
        return None if answer.error_code else int(answer.producer_id)

    def _send(self, producer_id: int, partition: int, sequence: int, values: Sequence[bytes]) -> bool:
        """Send until it is acknowledged. Return False when the producer has lost its place: it needs a new id."""
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        for value in values:
            builder.append(self.sim.now_ms, None, value)
        batch = bytes(builder.build())
        topics = [produce.ProduceTopic(TOPIC, [produce.ProducePartition(partition, batch)])]
        body = produce.encode_request(9, produce.ProduceRequest(-1, 2_000, None, topics))
        while True:
            leader = self.connections.leader(partition)
            if leader is None:
                self.pause()
                if self.is_ending:
                    return True
                continue
            try:
                answer = produce.decode_response(9, self.connections.request(leader, 0, 9, body)).topics[0].partitions[0]
            except Unanswered:
                self.connections.forget_leader(partition)
                self.pause()
                continue
            code = ErrorCode(answer.error_code)
            self.sim.note(self.name, "sent", partition, sequence, code.name, answer.base_offset)
            if code is ErrorCode.NONE or code in DUPLICATE:
                base_offset = answer.base_offset if code is ErrorCode.NONE else -1
                self.history.acknowledged.append(Acknowledged(partition, base_offset, tuple(values)))
                return True
            if code in LOST_PLACE:
                return False
            self.connections.forget_leader(partition)
            self.pause()


class Reader(Client):
    """Reads all partitions from the beginning, as far as leaders show them."""

    def __init__(
        self,
        cluster: Cluster,
        process: Process,
        history: History,
        name: str,
        *,
        partitions: Sequence[int],
        strays: bool = False,
        begins_again: bool = False,
    ) -> None:
        """`strays`: it sometimes asks another broker than the leader that it knows. `begins_again`: at each partition's end it
        begins at the beginning, and is another reader from then on.
        """
        self._strays, self._begins_again = strays, begins_again
        self._names = {partition: name for partition in partitions}
        self.offsets = dict.fromkeys(partitions, 0)
        self.starts = dict.fromkeys(partitions, 0)
        """Where the log began when this reader came there."""
        self.high_watermarks = dict.fromkeys(partitions, -1)
        """Of the last answers."""
        self.idle = dict.fromkeys(partitions, 0)
        """How many answers had nothing, one after the other."""
        super().__init__(cluster, process, history, name)

    def work(self) -> None:
        while not self.is_ending:
            for partition in self.offsets:
                self._read(partition)
            self.pause(40)

    def _read(self, partition: int) -> None:
        strays = self._strays and self.sim.chance.random() < STRAYS
        leader = self.connections.any_broker() if strays else self.connections.leader(partition)
        if leader is None:
            self.pause()
            return
        offset = self.offsets[partition]
        wanted = [fetch.FetchTopic(TOPIC, [fetch.FetchPartition(partition, offset, self.sim.chance.choice((1, 2_000, 1 << 16)))])]
        body = fetch.encode_request(12, fetch.FetchRequest(100, 1, 1 << 20, wanted))
        try:
            answer = fetch.decode_response(12, self.connections.request(leader, 1, 12, body)).topics[0].partitions[0]
        except Unanswered:
            self.connections.forget_leader(partition)
            self.pause()
            return
        if answer.error_code:
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self.history.refused.append(Refused(self.name, partition, offset, answer.error_code, self.sim.now_ms))
                self._begin_again(leader, partition)
            self.connections.forget_leader(partition)
            self.pause()
            return
        records: list[tuple[int, bytes]] = []
        end = offset
        for header, batch in iter_batches(answer.records or b""):
            if not crc_matches(batch, 0, header.size_bytes):
                self.history.damaged.append(f"{self.name}: {partition}, {header.base_offset}, of {leader}")
                self.connections.forget_leader(partition)
                self.pause()
                break
            for record in iter_records(batch):
                if record.offset >= offset:
                    records.append((record.offset, record.value or b""))
            end = header.next_offset
        self.high_watermarks[partition] = answer.high_watermark
        self.idle[partition] = 0 if records else self.idle[partition] + 1
        if self._begins_again and self.idle[partition] >= IDLE_AT_END:
            self._names[partition] += "+"
            self.offsets[partition] = self.idle[partition] = 0
        if records:
            self.history.seen.append(Seen(self._names[partition], partition, offset, tuple(records)))
            self.sim.note(self.name, "saw", partition, offset, len(records), "up to", end)
            self.offsets[partition] = end

    def _begin_again(self, leader: int, partition: int) -> None:
        """Continue where the log begins, if that is later: records were deleted."""
        wanted = [{"partition_index": partition, "current_leader_epoch": -1, "timestamp": EARLIEST}]
        message = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": wanted}]}
        try:
            answer = self.connections.ask(leader, LIST_OFFSETS, 7, message).topics[0].partitions[0]
        except Unanswered:
            return
        self.sim.note(self.name, "begins", partition, answer.offset, ErrorCode(answer.error_code).name)
        if not answer.error_code and answer.offset > self.offsets[partition]:
            self.offsets[partition] = self.starts[partition] = answer.offset


class Member(Client):
    """A member of a group: joins, takes what it is given, and commits offsets that only grow."""

    def work(self) -> None:
        member_id = ""
        while not self.is_ending:
            coordinator = self._coordinator()
            if coordinator is None:
                self.pause()
                continue
            try:
                member_id = self._one_life(coordinator, member_id)
            except Unanswered:
                pass
            self.pause()

    def _coordinator(self) -> int | None:
        try:
            answer = self.connections.ask(self.connections.any_broker(), 10, 3, {"key": GROUP, "key_type": 0})
        except Unanswered:
            return None
        return None if answer.error_code else int(answer.node_id)

    def _one_life(self, coordinator: int, member_id: str) -> str:
        """Join, own partitions until the group changes, and return the member's id for the next time."""
        ask = self.connections.ask
        joining = {
            "group_id": GROUP,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 1_500,
            "member_id": member_id,
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        joined = ask(coordinator, 11, 7, joining)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            return str(joined.member_id)
        if joined.error_code:
            return "" if joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID else member_id
        member_id, generation = str(joined.member_id), int(joined.generation_id)
        of_member = {"group_id": GROUP, "generation_id": generation, "member_id": member_id, "group_instance_id": None}
        shares = []
        if joined.leader == member_id:
            names = sorted(str(one.member_id) for one in joined.members)
            shares = [
                {"member_id": name, "assignment": bytes(range(PARTITIONS)[at :: len(names)])} for at, name in enumerate(names)
            ]
        synced = ask(
            coordinator, 14, 5, {**of_member, "protocol_type": "consumer", "protocol_name": "range", "assignments": shares}
        )
        if synced.error_code:
            return "" if synced.error_code == ErrorCode.UNKNOWN_MEMBER_ID else member_id
        mine = tuple(bytes(synced.assignment))
        process = self.connections.cluster.hosts[coordinator].process.name
        self.history.owned.append(Owned(GROUP, self.name, process, str(joined.leader), generation, mine))
        self.sim.note(self.name, "owns", *mine, "in generation", generation, "of", coordinator)
        offsets = {partition: self._found(coordinator, partition) for partition in mine}
        while not self.is_ending:
            self.pause(100)
            code = ask(coordinator, 12, 4, of_member).error_code
            if code:
                return "" if code == ErrorCode.UNKNOWN_MEMBER_ID else member_id
            for partition in mine:
                known = offsets[partition]
                if known is None:
                    offsets[partition] = self._found(coordinator, partition)
                    continue
                offset = max(0, known) + self.sim.chance.randint(1, 100)
                if not self._commit(coordinator, of_member, partition, offset):
                    return member_id
                offsets[partition] = offset
        return member_id

    def _found(self, coordinator: int, partition: int) -> int | None:
        asked_us = self.sim.now_us
        wanted = {
            "group_id": GROUP,
            "member_id": None,
            "member_epoch": -1,
            "topics": [{"name": TOPIC, "partition_indexes": [partition]}],
        }
        answer = self.connections.ask(coordinator, 9, 8, {"groups": [wanted], "require_stable": False}).groups[0]
        if answer.error_code or answer.topics[0].partitions[0].error_code:
            return None
        offset = int(answer.topics[0].partitions[0].committed_offset)
        self.history.found.append(Found(GROUP, partition, offset, asked_us, self.sim.now_us))
        self.sim.note(self.name, "found", partition, offset)
        return offset

    def _commit(self, coordinator: int, of_member: Mapping[str, Any], partition: int, offset: int) -> bool:
        asked_us = self.sim.now_us
        committed = {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": None,
        }
        message = {
            "group_id": of_member["group_id"],
            "generation_id_or_member_epoch": of_member["generation_id"],
            "member_id": of_member["member_id"],
            "group_instance_id": None,
            "topics": [{"name": TOPIC, "partitions": [committed]}],
        }
        code = self.connections.ask(coordinator, 8, 8, message).topics[0].partitions[0].error_code
        self.sim.note(self.name, "committed", partition, offset, ErrorCode(code).name)
        if code:
            return False
        self.history.committed.append(Committed(GROUP, partition, offset, asked_us, self.sim.now_us))
        return True


def _exactly(connection: SimulatedSocket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("it closed the connection")
        data += more
    return bytes(data)
