"""One of the streams that `create_message_streams` makes: a blocking iterator over partitions of one topic, for one thread."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from ...errors import HeadraceError
from ...runtime.logs import get_logger
from ..connection.cluster import Cluster
from ..consumer.message_stream import Callbacks, MessageStream
from ..consumer.stream_message import Message
from ..consumer.stream_state import StreamState
from ..consumer.zk_errors import StreamMisused
from ..fetch.fetched import TopicPartition
from ..fetch.log_offsets import log_offsets

log = get_logger(__name__)

FOREVER_MS = 3_600_000
Commit = Callable[[StreamState, Mapping[TopicPartition, int]], None]


class KafkaStream(Iterator[Message]):
    """A stream of messages that never ends: where there is none, `next` waits. It ends when its connector is closed.

    Belongs to one thread, and so do the callbacks. A message counts as finished when the thread asks for the next one.
    """

    def __init__(
        self,
        topic: str,
        number: int,
        state: StreamState,
        callbacks: Callbacks,
        *,
        cluster: Cluster,
        may_deliver: Callable[[StreamState], bool],
        commit: Commit,
        commits_by_itself: bool,
        name: str,
    ) -> None:
        """`commit` registers offsets of this stream. `commits_by_itself`: at a revocation, what is finished is registered."""
        self.topic, self.number, self.name = topic, number, f"{name}/{topic}/{number}"
        self._state, self._cluster, self._commit = state, cluster, commit
        if callbacks.on_revoked is None and commits_by_itself:
            callbacks = replace(callbacks, on_revoked=self._commit_finished)
        self._messages = MessageStream(state, callbacks, may_deliver=lambda: may_deliver(state), name=self.name)
        self._handing_out = threading.Lock()
        self._reader: threading.Thread | None = None

    def __iter__(self) -> "KafkaStream":
        return self

    def __next__(self) -> Message:
        while True:
            message = self.poll(FOREVER_MS)
            if message is not None:
                return message
            if self._state.is_stopped:
                raise StopIteration

    def poll(self, timeout_ms: int) -> Message | None:
        """Return the next message, or None if none came in `timeout_ms` or the connector is closed. Runs the callbacks.

        Raises RebalanceFailed, ConsumerIdTaken, a broker's permanent refusal, and StreamMisused in a second thread.
        """
        if not self._handing_out.acquire(blocking=False):
            raise StreamMisused(f"stream {self.name}: it belongs to one thread, and another is in it: make more streams")
        try:
            self._reader = threading.current_thread()
            return self._messages.next(time.monotonic() + timeout_ms / 1000)
        finally:
            self._handing_out.release()

    def commit(self) -> None:
        """Register how far this stream has handed out, the latest message included: durable on return. For the iterating thread.

        Raises as the connector's `commit`.
        """
        self._commit(self._state, self._state.uncommitted())

    def seek(self, partition: int, offset: int) -> None:
        """Continue at `offset` in one of this stream's partitions. Any thread. Raises StreamMisused if it has not got it now."""
        if not self._state.seek(TopicPartition(self.topic, partition), offset):
            raise StreamMisused(f"seek in {self.topic}-{partition}: stream {self.name} does not read it now")

    def seek_to_time(self, partition: int, timestamp_ms: int) -> int:
        """Continue at the first record at or after this event time, else at the log's end; return the offset. Raises as `seek`,
        and ClientError.
        """
        name = TopicPartition(self.topic, partition)
        if name not in self._state.positions():
            raise StreamMisused(f"seek in {self.topic}-{partition}: stream {self.name} does not read it now")
        offset = log_offsets(self._cluster, {name: timestamp_ms})[name]
        self.seek(partition, offset)
        return offset

    @property
    def positions(self) -> dict[int, int]:
        """Partition to the offset behind the last message handed out, of the partitions that this stream reads now."""
        return {name.partition: at for name, at in self._state.positions().items()}

    @property
    def queued_bytes(self) -> int:
        """Bytes of the batches that are fetched and not handed out yet."""
        return self._state.queued_bytes

    @property
    def trouble(self) -> HeadraceError | None:
        """Why nothing can be read now, or the group is not reached; None: all is well. It is retried automatically."""
        return self._state.trouble

    # ---- for the connector

    def await_finished(self, deadline: float) -> bool:
        """Return whether no thread works on a message, which is waited for until `deadline` (monotonic)."""
        while self._messages.is_in_hand:
            reader = self._reader
            if reader is None or reader is threading.current_thread() or not reader.is_alive():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        return True

    def give_back(self, deadline: float) -> None:
        """Run `on_revoked` for what is still read, when no other thread is in the stream."""
        if not self._handing_out.acquire(timeout=max(0.0, deadline - time.monotonic())):
            log.warning("stream_left_busy", stream=self.name)
            return
        try:
            owned = self._state.positions()
            if owned:
                self._messages.notify_revoked(owned)
        finally:
            self._handing_out.release()

    def _commit_finished(self, partitions: Collection[TopicPartition]) -> None:
        due = {name: at for name, at in self._state.finished().items() if name in partitions}
        try:
            self._commit(self._state, due)
        except HeadraceError as error:
            log.warning("commit_at_handover_failed", stream=self.name, error=str(error))
