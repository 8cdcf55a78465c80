"""Fetch batches from many partitions and brokers at once.

Checks each batch's CRC, once, for all callers. Does not open batches. Works with byte offsets and with dense ones: the next
offset is always `BatchHeader.next_offset`. Keeps no position: the caller does. Keeps a fetch session with each broker that offers
one, so that partitions without news cost nothing.
"""

import itertools
from collections.abc import Mapping
from typing import NamedTuple

from ...wire.errors import ErrorCode, WireError
from ...wire.messages import fetch as wire_fetch
from ..connection.cluster import Cluster
from ..connection.connection import Connection
from ..errors import BadAnswer, ClientError, OffsetOutOfRange, broker_error
from .committed import visible_end, without_aborted
from .fetch_session import NO_SESSION, Asked, FetchSession
from .fetched import CorruptRange, FetchedPartition, TopicPartition, parse
from .log_offsets import EARLIEST, log_offsets
from .wanted import Wanted

LARGEST_PARTITION_BYTES = 64 << 20
"""To find the end of a bad range, a fetch is widened up to this size."""
MOST_PARTITIONS = 10_000
"""Of one request and of one session. Our broker takes 20,000, and Kafka's own limit is that of the request's size."""
_SESSION_REFUSALS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)

_lanes = itertools.count()


class _Request(NamedTuple):
    """What one broker was asked, and has not answered yet."""

    leader: Connection
    version: int
    session: FetchSession
    max_wait_ms: int


class PendingFetch(NamedTuple):
    """Requests whose responses were not read yet, one for each leader, and what could not be asked."""

    requests: list[_Request]
    failed: list[FetchedPartition]
    partition_bytes: int


class Fetcher:
    """Fetches from any number of partitions, on its own connections. One thread at a time uses it; any thread may `close` it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 8 << 20,
        partition_max_bytes: int = 1 << 20,
        is_read_committed: bool = False,
        hides_aborted: bool = False,
        leaves_out_idle: bool = False,
    ) -> None:
        """`is_read_committed`: nothing of open transactions is fetched. What was aborted is, and so are the markers:
        `committed.data_batches` tells them apart. `hides_aborted` (implies it): batches of aborted transactions come as empty
        control batches, and `high_watermark` is where a reader of committed records finds the end. `leaves_out_idle`: see
        `fetch`.
        """
        self.cluster = cluster
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.partition_max_bytes = partition_max_bytes
        self.isolation_level = int(is_read_committed or hides_aborted)
        self._hides_aborted = hides_aborted
        self._leaves_out_idle = leaves_out_idle
        self._lane = f"fetch-{next(_lanes)}"
        self._turn = 0
        self._offsets: dict[TopicPartition, int] = {}
        """What is read now."""
        self._wanted: Wanted | None = None
        """Where that comes from, if it tells its changes."""
        self._homes: dict[TopicPartition, tuple[Connection, FetchSession]] = {}
        self._sessions: dict[Connection, list[FetchSession]] = {}
        """With each leader, several where it leads more than `MOST_PARTITIONS`."""
        self._homeless: dict[TopicPartition, None] = {}
        """Partitions whose leader is to be looked up."""

    def fetch(self, wanted: Mapping[TopicPartition, int] | Wanted) -> list[FetchedPartition]:
        """Return what the brokers hold from each offset on. If they hold nothing, return after about `max_wait_ms`.

        With `leaves_out_idle` a partition that is not in the list is caught up: its log ended at the offset wanted when its
        broker answered. Partitions that were asked for and have more than fits are in the list, without batches.

        A `Wanted` that is passed again costs as much as it has changed; of another mapping all items are compared.

        A partition that fails for now (its leader moves) is in the list with its `error` and without batches. If all fail, the
        first error is raised. Raises `OffsetOutOfRange`, and errors that are not retriable, at once. Of more than
        `MOST_PARTITIONS` of one broker, each call reads the next ones in turn, and waits only their share of `max_wait_ms`:
        then the others are in no list.
        """
        return self.finish(self.begin(wanted)) if wanted else []

    def begin(self, wanted: Mapping[TopicPartition, int] | Wanted) -> PendingFetch:
        """Ask and do not wait; `finish` returns what came. One at a time: a later request to the same broker drops this one.
        Raises errors that are not retriable.
        """
        self._turn += 1
        self._take(wanted)
        pending = PendingFetch([], [], self.partition_max_bytes)
        self._find_leaders(pending.failed)
        # Send to all brokers before waiting for the first, so that their long polls run side by side.
        for leader, sessions in self._sessions.items():
            session = sessions[self._turn % len(sessions)]
            total = sum(len(one.offsets) for one in sessions) if len(sessions) > 1 else len(session.offsets)
            wait_ms = self.max_wait_ms * len(session.offsets) // total
            try:
                version = self._ask(leader, session.ask(pending.partition_bytes), wait_ms, pending.partition_bytes)
                pending.requests.append(_Request(leader, version, session, wait_ms))
            except ClientError as error:
                pending.failed.extend(self._all_failed(session, error))
        return pending

    def finish(self, pending: PendingFetch) -> list[FetchedPartition]:
        """Wait for what was begun. Returns and raises as `fetch`."""
        fetched = list(pending.failed)
        asked = len(pending.failed)
        for request in pending.requests:
            asked += len(request.session.offsets)
            try:
                answer = self._answer_in_session(request, pending.partition_bytes)
            except ClientError as error:
                fetched += self._all_failed(request.session, error)
                continue
            fetched += self._partitions_of(request, answer, pending.partition_bytes)
        errors = [one.error for one in fetched if one.error is not None]
        if errors and len(errors) >= asked:
            raise errors[0]
        return fetched

    @property
    def turns(self) -> int:
        """In how many calls, one after another, each partition is asked for once: 1, but for many partitions of one broker."""
        return max(map(len, self._sessions.values()), default=1)

    def close(self) -> None:
        """Close this fetcher's connections, from any thread; a waiting fetch fails."""
        self.cluster.close_lane(self._lane)

    def _take(self, wanted: Mapping[TopicPartition, int] | Wanted) -> None:
        """Make `wanted` what is read."""
        if isinstance(wanted, Wanted):
            changed = wanted.take_changes()
            offsets = wanted.offsets
            if wanted is not self._wanted:
                changed = {*self._offsets, *offsets}
            self._wanted = wanted
            for name in changed:
                self._move(name, offsets.get(name))
            return
        self._wanted = None
        if wanted == self._offsets:
            return
        for name, offset in wanted.items():
            if self._offsets.get(name) != offset:
                self._move(name, offset)
        if len(self._offsets) != len(wanted):
            for name in self._offsets.keys() - wanted.keys():
                self._move(name, None)

    def _move(self, name: TopicPartition, offset: int | None) -> None:
        """Read a partition from this offset on; None: no more."""
        if offset == self._offsets.get(name):
            return
        if offset is None:
            del self._offsets[name]
            self._homeless.pop(name, None)
            self._leave_home(name)
            return
        self._offsets[name] = offset
        home = self._homes.get(name)
        if home is None:
            self._homeless[name] = None
        else:
            home[1].put(name, offset)

    def _leave_home(self, name: TopicPartition) -> None:
        home = self._homes.pop(name, None)
        if home is None:
            return
        leader, session = home
        session.drop(name)
        if not session.offsets:
            self._sessions[leader].remove(session)
            if not self._sessions[leader]:
                del self._sessions[leader]

    def _find_leaders(self, failed: list[FetchedPartition]) -> None:
        """Look up the leaders that are not known, and put each partition into a session of its leader."""
        if not self._homeless:
            return
        names = list(self._homeless)
        try:
            self.cluster.learn({name.topic for name in names})
        except ClientError as error:
            for name in names:
                self._leave_home(name)
                failed.append(self._failed(name, self._offsets[name], error))
            return
        for name in names:
            offset = self._offsets[name]
            try:
                leader = self.cluster.leader(*name, lane=self._lane)
            except ClientError as error:
                failed.append(self._failed(name, offset, error))
                self._leave_home(name)
                continue
            del self._homeless[name]
            home = self._homes.get(name)
            if home is not None and home[0] is leader:
                continue
            self._leave_home(name)
            session = self._room_at(leader)
            session.put(name, offset)
            self._homes[name] = (leader, session)

    def _room_at(self, leader: Connection) -> FetchSession:
        sessions = self._sessions.setdefault(leader, [])
        for session in sessions:
            if len(session.offsets) < MOST_PARTITIONS:
                return session
        sessions.append(FetchSession())
        return sessions[-1]

    def _ask(self, leader: Connection, asked: Asked, max_wait_ms: int, partition_bytes: int) -> int:
        request = wire_fetch.FetchRequest(
            max_wait_ms,
            self.min_bytes,
            max(self.max_bytes, partition_bytes),
            asked.topics,
            isolation_level=self.isolation_level,
            session_id=asked.session_id,
            session_epoch=asked.session_epoch,
            forgotten=asked.forgotten,
        )
        leader.drop_unanswered()
        version = leader.negotiated(wire_fetch.API_KEY, wire_fetch.MIN_VERSION, wire_fetch.MAX_VERSION)
        leader.begin(wire_fetch.API_KEY, version, wire_fetch.encode_request(version, request))
        return version

    def _answer_in_session(self, request: _Request, partition_bytes: int) -> wire_fetch.FetchResponse:
        leader, version, session, max_wait_ms = request
        answer = self._answer(leader, version, max_wait_ms)
        if answer.error_code in _SESSION_REFUSALS:
            # The broker has been restarted, or has given the session's place to another client.
            session.reset()
            version = self._ask(leader, session.ask(partition_bytes), max_wait_ms, partition_bytes)
            answer = self._answer(leader, version, max_wait_ms)
        if answer.error_code:
            raise broker_error(f"Fetch from {leader.address}", answer.error_code)
        session.answered(answer.session_id)
        return answer

    def _answer(self, leader: Connection, version: int, max_wait_ms: int) -> wire_fetch.FetchResponse:
        body = leader.finish(timeout_ms=self.cluster.request_timeout_ms + max_wait_ms)
        try:
            return wire_fetch.decode_response(version, body)
        except WireError as error:
            raise BadAnswer(leader.address, "Fetch", str(error)) from error

    def _partitions_of(self, request: _Request, answer: wire_fetch.FetchResponse, partition_bytes: int) -> list[FetchedPartition]:
        leader, session = request.leader, request.session
        answered = {
            TopicPartition(str(topic.name), partition.index): partition
            for topic in answer.topics
            for partition in topic.partitions
        }
        # First note all that was said: the broker does not repeat it, also where one partition raises.
        for name, part in answered.items():
            if not part.error_code:
                session.heard(name, self._end_of(part), part.log_start_offset, part.last_stable_offset)
        fetched = [
            self._one_of(leader, name, session.offsets[name], part, partition_bytes)
            for name, part in answered.items()
            if name in session.offsets
        ]
        silent = session.behind if self._leaves_out_idle and answer.session_id else session.offsets
        for name in [one for one in silent if one not in answered]:
            unmoved = session.unmoved(name)
            if unmoved is None:
                error = BadAnswer(leader.address, "Fetch", f"it leaves out {name.topic}-{name.partition}")
                unmoved = self._failed(name, session.offsets[name], error)
            fetched.append(unmoved)
        return fetched

    def _one_of(
        self,
        leader: Connection,
        name: TopicPartition,
        offset: int,
        part: wire_fetch.FetchResponsePartition,
        partition_bytes: int,
    ) -> FetchedPartition:
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = part.log_start_offset if part.log_start_offset >= 0 else log_offsets(self.cluster, {name: EARLIEST})[name]
            raise OffsetOutOfRange(*name, offset, start)
        if part.error_code:
            what = f"Fetch of {name.topic}-{name.partition} from {leader.address}"
            return self._failed(name, offset, broker_error(what, part.error_code))
        return self._partition_of(leader, name, offset, part, partition_bytes)

    def _end_of(self, part: wire_fetch.FetchResponsePartition) -> int:
        return visible_end(part.high_watermark, part.last_stable_offset) if self._hides_aborted else part.high_watermark

    def _wider(self, leader: Connection, name: TopicPartition, offset: int, partition_bytes: int) -> FetchedPartition:
        """Fetch one partition again, beside its session."""
        wanted = wire_fetch.FetchPartition(name.partition, offset, partition_bytes)
        asked = Asked(0, NO_SESSION, [wire_fetch.FetchTopic(name.topic, [wanted])], ())
        answer = self._answer(leader, self._ask(leader, asked, 0, partition_bytes), 0)
        if answer.error_code:
            raise broker_error(f"Fetch from {leader.address}", answer.error_code)
        for topic in answer.topics:
            for part in topic.partitions:
                if (topic.name, part.index) == name:
                    return self._one_of(leader, name, offset, part, partition_bytes)
        raise BadAnswer(leader.address, "Fetch", f"it leaves out {name.topic}-{name.partition}")

    def _partition_of(
        self,
        leader: Connection,
        name: TopicPartition,
        offset: int,
        part: wire_fetch.FetchResponsePartition,
        partition_bytes: int,
    ) -> FetchedPartition:
        records = part.records if isinstance(part.records, memoryview) else memoryview(b"")
        batches, corrupt, tail = parse(records, offset)
        end = self._end_of(part)
        is_stuck = tail is not None and not batches and not corrupt
        if corrupt or is_stuck:
            is_first_look = partition_bytes == self.partition_max_bytes
            bigger = partition_bytes * 4
            if (is_first_look or (is_stuck and len(records) >= partition_bytes)) and bigger <= LARGEST_PARTITION_BYTES:
                # Fetch again, and further. The damage may have happened on the network and not in the log, and only the bytes
                # after it show where it ends.
                return self._wider(leader, name, offset, bigger)
        if tail is not None and is_stuck:
            believable = tail.from_offset < tail.to_offset <= end
            bad_end = tail.to_offset if believable else max(end, tail.from_offset + 1)
            corrupt = [CorruptRange(from_offset=tail.from_offset, to_offset=bad_end, reason=tail.reason)]
        return FetchedPartition(
            topic=name.topic,
            partition=name.partition,
            requested_offset=offset,
            high_watermark=end,
            log_start_offset=part.log_start_offset,
            batches=without_aborted(batches, part.aborted) if self._hides_aborted else batches,
            corrupt=corrupt,
            last_stable_offset=part.last_stable_offset,
            aborted=tuple(part.aborted or ()),
        )

    def _all_failed(self, session: FetchSession, error: ClientError) -> list[FetchedPartition]:
        session.reset()
        self._homeless |= dict.fromkeys(session.offsets)
        return [self._failed(name, offset, error) for name, offset in session.offsets.items()]

    def _failed(self, name: TopicPartition, offset: int, error: ClientError) -> FetchedPartition:
        self._homeless[name] = None
        if not error.retriable:
            raise error
        self.cluster.forget(name.topic)
        return FetchedPartition(
            topic=name.topic,
            partition=name.partition,
            requested_offset=offset,
            high_watermark=-1,
            log_start_offset=-1,
            error=error,
        )
