"""One of the two servers, asked over the wire; values that must differ between servers are replaced in its responses.

Offsets are byte positions in our server and record numbers in Kafka. `produce` gives each offset a name; responses then contain
'record 2' or 'end' instead of numbers.
"""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from headrace.wire.messages import control
from tests.clients.answers.plain import Table, flat
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed, RawClient, batch

CREATE_TOPICS, METADATA, LIST_OFFSETS = 19, 3, 2
_OFFSETS = ("offset", "base_offset", "end_offset", "low_watermark", "high_watermark", "log_start_offset", "last_stable_offset")


class Side:
    """A server, with its name for the list of differences."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.called: dict[int, str] = {}
        """Offset → its name."""
        self._ids: dict[str, bytes] = {}
        """Topic → its id, of those that were made here."""

    def versions(self) -> dict[int, tuple[int, int]]:
        """Return the versions that it advertises."""
        with RawClient(self.port) as client:
            return control.decode_api_versions(3, client.request(18, 3, control.encode_request(18, 3, _SOFTWARE)))[1]

    def ask(self, api_key: int, version: int, message: Mapping[str, Any]) -> Table:
        """Return its response as a table; `connection: closed` if it sends none."""
        body = control.encode_request(api_key, version, message)
        return self.ask_raw(api_key, version, body, lambda answer: control.decode_response(api_key, version, answer))

    def ask_raw(self, api_key: int, version: int, body: bytes, read: Callable[[memoryview], Any]) -> Table:
        """Send these bytes and return the response, read by `read`, as a table."""
        with RawClient(self.port, timeout_ms=5_000) as client:
            try:
                answer = client.request(api_key, version, body)
            except Closed:
                return {"connection": "closed"}
            except TimeoutError:
                return {"connection": "silent"}
            return self.told(read(answer))

    def told(self, answer: Any) -> Table:
        """Return a response as a table without this server's own port, ids and kind of offsets."""
        table = flat(answer)
        for path, value in table.items():
            field = path.rsplit(".", 1)[-1]
            if field in _OFFSETS and value in self.called:
                table[path] = self.called[value]
            elif (field == "port" and value == self.port) or (field == "cluster_id" and value):
                table[path] = "its own"
        return table

    def until(self, ask: Callable[[], Table], has: Callable[[Table], bool]) -> Table:
        """Return the first response that `has` accepts, else the last one: Kafka's broker learns of changes a little later."""
        last: list[Table] = []

        def good() -> bool:
            last[:] = [ask()]
            return has(last[0])

        try:
            eventually(good, within_ms=5_000, every_ms=30)
        except AssertionError:
            pass
        return last[0]

    def make(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic, wait until its partitions have leaders, and return its name."""
        configs = [{"name": name, "value": value} for name, value in (config or {}).items()]
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1, "assignments": [], "configs": configs}
        with RawClient(self.port) as client:
            made = client.ask(CREATE_TOPICS, 7, {"topics": [wanted], "timeout_ms": 10_000, "validate_only": False})
            assert int(made.topics[0].error_code) == 0, made
            self._ids[topic] = made.topics[0].topic_id.bytes

            def led() -> bool:
                asked = list_offsets(topic, -1)
                asked["topics"][0]["partitions"] = [
                    {**asked["topics"][0]["partitions"][0], "partition_index": at} for at in range(partitions)
                ]
                (seen,) = client.ask(LIST_OFFSETS, 5, asked).topics
                return all(int(one.error_code) == 0 for one in seen.partitions)

            eventually(led, every_ms=20, what=f"{topic} is led")
        return topic

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic; of one that was not made here, an id that no topic has."""
        return self._ids.get(topic) or uuid5(NAMESPACE_DNS, topic).bytes

    def fill(self, topic: str, count: int, *, first_ms: int = 1_700_000_000_000) -> list[int]:
        """Append this many records, a batch each, a second of event time apart; return their offsets, which get names."""
        offsets = []
        with RawClient(self.port) as client:
            for number in range(count):
                done = client.produce(topic, batch(b"value", timestamp_ms=first_ms + 1000 * number), version=7)
                assert done.error_code == 0, done
                offsets.append(done.base_offset)
            (answer,) = client.ask(LIST_OFFSETS, 5, list_offsets(topic, -1)).topics
        # A log begins at 0. Only in Kafka this is also its first record's offset.
        called = {offset: f"record {number}" for number, offset in enumerate(offsets)}
        self.called = {0: called[offsets[0]]} | called | {int(answer.partitions[0].offset): "end"}
        return [*offsets, int(answer.partitions[0].offset)]


def list_offsets(topic: str, *timestamps: int, partition: int = 0, epoch: int = -1, isolation: int = 0) -> dict[str, Any]:
    """Return a ListOffsets request that asks one partition for each of the times."""
    wanted = [{"partition_index": partition, "current_leader_epoch": epoch, "timestamp": one} for one in timestamps]
    return {"replica_id": -1, "isolation_level": isolation, "topics": [{"name": topic, "partitions": wanted}]}


_SOFTWARE = {"client_software_name": "same-answers", "client_software_version": "1"}
