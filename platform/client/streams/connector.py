"""The paper's consumer connector: one member of a group, and n blocking iterators for a topic, read by n threads.

    with ConsumerConnector("127.0.0.1:9092", "127.0.0.1:2181", "group") as connector:
        streams = connector.create_message_streams({"clicks": 4})
        for stream in streams["clicks"]:
            threading.Thread(target=work, args=(stream,)).start()

Each partition is in exactly one stream of one member, in order. At least once: what was finished and not committed yet is
delivered again after a crash. Starts a fetching thread for each stream and one that commits. Source: the paper's section 3.1 and
Kafka 0.7's `ConsumerConnector`.
"""

import threading
import time
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Self

from ...errors import HeadraceError
from ...runtime.lifecycle import Lifecycle
from ...runtime.logs import get_logger
from ..connection.cluster import Cluster
from ..consumer.membership import Membership
from ..consumer.message_stream import Callbacks
from ..consumer.stream_fetching import FetchLoop, reset_point
from ..consumer.stream_state import StreamState
from ..consumer.zk_errors import PartitionsLost, StreamMisused
from ..fetch.fetched import TopicPartition
from ..fetch.fetcher import Fetcher
from ..fetch.log_offsets import log_offsets
from .message_streams import KafkaStream
from .settings import ConnectorSettings
from .stream_set import StreamSet

log = get_logger(__name__)

MOST_STREAMS = 1_000
LARGEST_ANSWER_BYTES = 8 << 20
SMALLEST_QUEUE_BYTES = 64 << 10


class Connector:
    """What the connectors of both kinds of groups share. The constructor only stores; `create_message_streams` begins."""

    def __init__(
        self, bootstrap: str, group: str, consumer_id: str, settings: ConnectorSettings, callbacks: Callbacks | None
    ) -> None:
        self.group, self.consumer_id, self.settings = group, consumer_id, settings
        self._callbacks = callbacks or Callbacks()
        self._reset_to = reset_point(settings.auto_offset_reset)
        self._cluster = Cluster(bootstrap, client_id=f"{group}.{consumer_id}")
        self._membership: Membership | None = None
        self._streams: dict[str, list[KafkaStream]] = {}
        self._states: list[StreamState] = []
        self._fetching_loops: list[FetchLoop] = []
        self._lifecycle = Lifecycle()
        self._committing = threading.Lock()  # so that no earlier position is written behind a later one
        self._closing = threading.Event()
        self._committer = threading.Thread(target=self._commit_regularly, name=f"commit-{consumer_id}", daemon=True)

    def _join_as(self, subscription: Mapping[str, int]) -> Membership:
        raise NotImplementedError

    # ---- life

    def create_message_streams(self, topic_counts: Mapping[str, int], timeout_ms: int = 30_000) -> dict[str, list[KafkaStream]]:
        """Join the group and return for each topic its number of streams. Once for a connector. The topics need not exist.

        Streams beyond the number of a topic's partitions wait for more of them. Raises StreamMisused, and what joining raises.
        """
        self._check(topic_counts)
        self._membership = membership = self._join_as(topic_counts)
        states = {topic: [self._new_state(topic_counts) for _ in range(count)] for topic, count in topic_counts.items()}
        self._states = [state for some in states.values() for state in some]
        self._streams = {
            topic: [self._stream(topic, number, state) for number, state in enumerate(some)] for topic, some in states.items()
        }
        self._fetching_loops = fetching = [self._fetching(state, number) for number, state in enumerate(self._states)]
        self._lifecycle.started("cluster", self._cluster.close)
        try:
            self._lifecycle.started("membership", membership.leave)
            membership.join(StreamSet(states), self._starts, timeout_ms, on_brokers=self._brokers_changed)
            for one in fetching:
                one.start()
                self._lifecycle.started("fetching", one.stop)
            membership.begin()
            self._lifecycle.started("sharing", membership.stop_sharing)
            if self.settings.enable_auto_commit:
                self._committer.start()
        except BaseException:
            self._end_streams()
            self._lifecycle.stop()
            raise
        log.info("connector_joined", group=self.group, consumer=self.consumer_id, streams=dict(topic_counts))
        return {topic: list(some) for topic, some in self._streams.items()}

    def close(self, timeout_ms: int = 30_000) -> None:
        """End every stream, register what is finished, leave the group.

        Threads that work on a message are given `timeout_ms` to finish it: what they do not finish is delivered again.
        """
        if self._closing.is_set():
            return
        self._end_streams()
        if self._membership is None:
            self._cluster.close()
            return
        deadline = time.monotonic() + timeout_ms / 1000
        try:
            for stream in self._all_streams():
                stream.await_finished(deadline)
            self._membership.stop_sharing()
            for stream in self._all_streams():
                stream.give_back(deadline)
        finally:
            self._lifecycle.stop()
            if self._committer.ident is not None:
                self._committer.join(10)

    shutdown = close
    """Its name in Kafka 0.7."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # ---- positions

    def commit(self) -> None:
        """Register everything that is finished, in every stream: durable on return. Any thread.

        Raises PartitionsLost (nothing of that stream is committed), and what ZooKeeper or the coordinator raises, retriable.
        """
        for state in self._states:
            self._commit_of(state, None)

    commit_offsets = commit
    """Its name in Kafka 0.7."""

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at `offset`, in whichever stream reads the partition. Any thread. Raises StreamMisused if none does now."""
        self._reading(topic, partition).seek(partition, offset)

    def seek_to_time(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Continue at the first record at or after this event time, else at the log's end; return it. Raises as `seek`."""
        return self._reading(topic, partition).seek_to_time(partition, timestamp_ms)

    @property
    def owned(self) -> dict[TopicPartition, int]:
        """The partitions that this member reads now, and the position in each."""
        return {name: at for state in self._states for name, at in state.positions().items()}

    @property
    def is_sure(self) -> bool:
        """Whether the group provably counts this member as alive."""
        return self._membership is not None and not self._closing.is_set() and self._membership.is_sure()

    # ---- inside

    def _brokers_changed(self) -> None:
        for one in self._fetching_loops:
            one.hurry()

    def _check(self, topic_counts: Mapping[str, int]) -> None:
        if self._membership is not None or self._closing.is_set():
            raise StreamMisused(f"connector {self.consumer_id!r}: its streams were made before, or it is closed: make a new one")
        wrong = {topic: count for topic, count in topic_counts.items() if not isinstance(count, int) or count < 1}
        if not topic_counts or wrong:
            raise StreamMisused(f"streams of {wrong or topic_counts}: name at least one topic, each with 1 stream or more")
        if sum(topic_counts.values()) > MOST_STREAMS:
            raise StreamMisused(f"{sum(topic_counts.values())} streams: at most {MOST_STREAMS} in one process; start another one")

    def _new_state(self, topic_counts: Mapping[str, int]) -> StreamState:
        share = self.settings.queue_bytes // sum(topic_counts.values())
        return StreamState(queue_bytes=max(SMALLEST_QUEUE_BYTES, share))

    def _stream(self, topic: str, number: int, state: StreamState) -> KafkaStream:
        return KafkaStream(
            topic,
            number,
            state,
            self._callbacks,
            cluster=self._cluster,
            may_deliver=self._may_deliver,
            commit=self._commit_of,
            commits_by_itself=self.settings.enable_auto_commit,
            name=f"{self.group}.{self.consumer_id}",
        )

    def _fetching(self, state: StreamState, number: int) -> FetchLoop:
        answer_bytes = min(LARGEST_ANSWER_BYTES, state.queue_bytes // 2)
        fetcher = Fetcher(
            self._cluster,
            max_wait_ms=self.settings.fetch_wait_ms,
            max_bytes=answer_bytes,
            partition_max_bytes=min(1 << 20, answer_bytes),
            hides_aborted=True,
            leaves_out_idle=True,
        )
        return FetchLoop(state, fetcher, starts=self._starts, name=f"{self.consumer_id}-{number}")

    def _starts(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return log_offsets(self._cluster, dict.fromkeys(partitions, self._reset_to))

    def _may_deliver(self, state: StreamState) -> bool:
        membership = self._membership
        return membership is not None and membership.is_sure() and membership.generation == state.generation

    def _all_streams(self) -> list[KafkaStream]:
        return [stream for some in self._streams.values() for stream in some]

    def _reading(self, topic: str, partition: int) -> KafkaStream:
        for stream in self._streams.get(topic, ()):
            if partition in stream.positions:
                return stream
        raise StreamMisused(f"seek in {topic}-{partition}: no stream of connector {self.consumer_id!r} reads it now")

    def _end_streams(self) -> None:
        self._closing.set()
        for state in self._states:
            state.stop()

    def _commit_of(self, state: StreamState, offsets: Mapping[TopicPartition, int] | None) -> None:
        """Register offsets of one stream's partitions (None: what is finished there)."""
        membership = self._membership
        assert membership is not None
        with self._committing:
            due = state.finished() if offsets is None else dict(offsets)
            if not due:
                return
            if state.has_unreported_loss() or membership.generation != state.generation:
                raise PartitionsLost(self.group, self.consumer_id)
            membership.commit(due, state.generation)
            state.committed(due)

    def _commit_regularly(self) -> None:
        failed = False
        while not self._closing.wait(self.settings.auto_commit_interval_ms / 1000):
            try:
                self.commit()
                if failed:
                    log.info("committing_again", group=self.group, consumer=self.consumer_id)
                failed = False
            except HeadraceError as error:
                # The next turn tries again; until then, a crash only makes more be delivered again.
                if not failed:
                    log.warning("auto_commit_failed", group=self.group, consumer=self.consumer_id, error=str(error))
                failed = True
            except Exception as error:  # a fault of ours must reach the application, not end in a silent thread
                log.error("auto_commit_ended", group=self.group, consumer=self.consumer_id, exc_info=True)
                for state in self._states:
                    state.fail(error)
                return
