"""A topic that is made, written, read and deleted, again and again under one name. What was deleted must not return."""

from typing import Any
from uuid import UUID

from headrace.wire.batch.record_batch import BatchBuilder, iter_batches, iter_records
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import fetch, produce

from .administration import create_topic, delete_topic
from .clients import Client, Unanswered

NAME = "short"
BATCHES = 4
METADATA = 3
NO_ID = UUID(int=0)
MOST_TRIES = 5


class ShortTopic(Client):
    """Notes in `history.returned` each record that was acknowledged at once in one topic, and is read from a later one. A topic
    that was made while a broker was down stays until all its replicas are in sync.
    """

    def work(self) -> None:
        was_in: dict[bytes, UUID] = {}
        number = 0
        cluster, down = self.connections.cluster, None
        while not self.is_ending:
            self.pause()
            code = create_topic(self.connections, NAME, 1, {"segment.bytes": "4096"})
            self.sim.note(self.name, "made", None if code is None else code.name)
            was_down, down = down, None
            if was_down is not None:
                cluster.start(was_down)
            if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                continue
            for _ in range(BATCHES):
                number += 1
                value = f"short:{number}".encode().ljust(200, b".")
                topic_id = self._send(value)
                if topic_id is not None:
                    was_in[value] = topic_id
            self._read(was_in)
            self.pause(200)
            while was_down is not None and not cluster.is_in_sync(NAME):
                if self.is_ending:
                    return  # and all must be in sync in the end
                self.pause()
            down = self._kill_before_deletion()
            code = delete_topic(self.connections, NAME)
            self.sim.note(self.name, "deleted", None if code is None else code.name)

    def _kill_before_deletion(self) -> int | None:
        """Return the broker that was to be down, and is."""
        cluster = self.connections.cluster
        down, cluster.is_down_at_deletion = cluster.is_down_at_deletion, None
        if down is not None:
            cluster.kill(down)
        return down

    def _find(self) -> tuple[int, UUID] | None:
        """Return leader and id."""
        message = {
            "topics": [{"topic_id": NO_ID, "name": NAME}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        for topic in self.connections.ask(self.connections.any_broker(), METADATA, 12, message).topics:
            for one in topic.partitions:
                if int(one.leader_id) > 0 and topic.topic_id:
                    return int(one.leader_id), topic.topic_id
        return None

    def _send(self, value: bytes) -> UUID | None:
        """Send once. Return the topic's id if it was acknowledged and the topic was the same before and after."""
        builder = BatchBuilder()
        builder.append(self.sim.now_ms, None, value)
        topics = [produce.ProduceTopic(NAME, [produce.ProducePartition(0, bytes(builder.build()))])]
        body = produce.encode_request(9, produce.ProduceRequest(-1, 2_000, None, topics))
        try:
            for _ in range(MOST_TRIES):
                found = self._find()
                if found is None:
                    self.pause()
                    continue
                answer = produce.decode_response(9, self.connections.request(found[0], 0, 9, body)).topics[0].partitions[0]
                self.sim.note(self.name, "sent", ErrorCode(answer.error_code).name)
                after = None if answer.error_code else self._find()
                return found[1] if after is not None and after[1] == found[1] else None
        except Unanswered:
            pass
        return None

    def _read(self, was_in: dict[bytes, UUID]) -> None:
        """Read from the beginning, as far as one answer has it."""
        try:
            found = self._find()
            if found is None:
                return
            leader, topic_id = found
            wanted: list[Any] = [fetch.FetchTopic(topic_id.bytes, [fetch.FetchPartition(0, 0, 1 << 16)])]
            body = fetch.encode_request(13, fetch.FetchRequest(100, 1, 1 << 20, wanted))
            topics = fetch.decode_response(13, self.connections.request(leader, 1, 13, body)).topics
        except Unanswered:
            return
        values = [
            record.value or b""
            for topic in topics
            for partition in topic.partitions
            for _, batch in iter_batches(partition.records or b"")
            for record in iter_records(batch)
        ]
        self.sim.note(self.name, "read", len(values))
        self.history.short_reads += bool(values)
        for value in values:
            if was_in.get(value, topic_id) != topic_id:
                self.history.returned.append(value)
