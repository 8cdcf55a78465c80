"""Fetch, key 1, versions 4-16: bytes of the log, whole batches, by sendfile. From 13 on it names topics by their ids.

A request with a session (7 and later) is answered from its active partitions, `fetch_sessions`; any other one names all that it
wants.

Traps, each found with real clients:
- Where all data from the fetch offset to the end is damaged, the response is empty and its high watermark is the fetch offset.
With the true one, a client that reads to a known end would wait for ever.
- The response has at least one whole batch, whatever max_bytes says.
- A session's response leaves out what its client knows. So a high watermark that moved is in it, even where no records fit.
- No batch is made up, not even an empty one.
- An offset behind the end of a replicated log is answered once it is known who leads, `fetch_collecting`."""

from collections.abc import Sequence
from functools import partial

from ...wire.errors import ErrorCode
from ...wire.messages import fetch
from ...wire.messages.single_partition_fetch import SinglePartitionFetch, offset_in
from ..errors import FrameRefused
from ..event_loop.deferred_response import Chunks, DeferredResponse, Region
from ..log import DamageAhead, FolderFault
from ..network.peer import Peer
from ..partitions.partition import Partition
from ..partitions.replicated_partition import ReplicatedPartition
from .broker import Answer, Broker
from .current_leaders import fetch_response
from .fetch_collecting import Asked, Collected, InSession, Repeated, collect, may_read, request_of, to_read
from .fetch_request_cache import LARGEST_BYTES
from .fetch_sessions import FetchSession, SessionPartition, next_epoch
from .request import Request

KEY = fetch.API_KEY
COPIED_BYTES = 16 * 1024
"""Records up to this size are copied into the response. It then leaves in one send and wakes its reader once; sendfile's three
calls would cost more than the copy."""
MOST_PARTITIONS = 20_000
"""Of one request. A frame could name 150,000 and keep the loop for seconds. A partition that is named twice counts twice."""
SURE_WITHIN_MS = 5_000
"""So long a fetch from behind the end waits for word of who leads."""
NO_EPOCH = -1


def handle(broker: Broker, request: Request) -> Answer:
    """Return what the partitions have. A DeferredResponse while that is less than min_bytes and there is time, or while the disk
    is being read. Hot: once a fetch.
    """
    version, body, peer = request.version, request.body, request.peer
    asked: Asked
    if len(body) <= LARGEST_BYTES and version <= fetch.MAX_SERVED:
        raw = bytes(body)
        known = broker.fetch_request_cache.get(version, raw)
        if known is not None:
            offset = offset_in(version, raw)
            if may_read(broker, peer, known):
                answer = _answer_one(broker, known, offset) or _wait_at_end(broker, version, known, offset, peer)
                if answer is not None:
                    return answer
            decoded, asked = known.at(offset), Repeated(known, offset)
        else:
            decoded = asked = fetch.decode_request(version, body)
            broker.fetch_request_cache.learn(version, raw, decoded)
    else:
        decoded = asked = fetch.decode_request(version, body)
        _check_count(decoded)
    if decoded.session_epoch not in (0, -1):
        error, asked = _in_session(broker, version, decoded)
        if error:
            return _failed(broker, version, error)
    elif decoded.session_id:
        broker.fetch_sessions.close(decoded.session_id)
    wait_ms = min(decoded.max_wait_ms, broker.settings.fetch_max_wait_ms)
    cold = _cold(broker, asked)
    if cold:
        parked = _Parked(broker, version, asked, decoded.min_bytes, wait_ms, peer)
        if parked.prefetch(cold):
            return parked.deferred
    collected = collect(broker, asked, peer)
    if collected.unsure:
        return _when_sure(broker, version, asked, peer, collected.unsure)
    is_empty = not decoded.topics and not isinstance(asked, InSession)
    if collected.size_bytes >= decoded.min_bytes or collected.must_go or wait_ms <= 0 or is_empty:
        return _chunks(broker, version, asked, collected, peer)
    parked = _Parked(broker, version, asked, decoded.min_bytes - collected.size_bytes, wait_ms, peer)
    return parked.deferred if parked.wait() else _chunks(broker, version, asked, collected, peer)


def _in_session(broker: Broker, version: int, request: fetch.FetchRequest) -> tuple[int, Asked]:
    """Return the error, or 0 and what an incremental request asks for."""
    sessions = broker.fetch_sessions
    session = sessions.get(request.session_id)
    if session is None:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, request
    if session.epoch != request.session_epoch:
        return ErrorCode.INVALID_FETCH_SESSION_EPOCH, request
    if session.goes_by_ids != (version >= fetch.FIRST_WITH_IDS):
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, request
    if not sessions.update(session, request, broker.loop.now_ms):
        sessions.close(session.session_id)
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, request
    if not session.partitions:
        sessions.close(session.session_id)
        return 0, request
    session.epoch = next_epoch(session.epoch)
    if session.parked is not None:
        session.parked.superseded()
    return 0, InSession(session, session.epoch, request)


def _known_partition(broker: Broker, known: SinglePartitionFetch) -> Partition | None:
    """Return the partition of a cached fetch, None when it is not led here or the client believes in another epoch."""
    topic = known.topic
    if isinstance(topic, str):
        partition = broker.partitions.get(topic, known.index)
    else:
        partition = broker.partition_to_read(topic, known.index)
    if known.current_leader_epoch != NO_EPOCH and partition is not None and known.current_leader_epoch != partition.leader_epoch:
        return None
    return partition


def _answer_one(broker: Broker, known: SinglePartitionFetch, offset: int) -> Chunks | None:
    """Return the response to a cached fetch, None unless it is plain data that is in memory."""
    partition = _known_partition(broker, known)
    if partition is None:
        return None
    log, high_watermark = partition.log, partition.high_watermark
    log_start_offset = log.log_start_offset
    if not log_start_offset <= offset < high_watermark:
        return None
    request = known.request
    most_bytes = min(known.partition_max_bytes, request.max_bytes, broker.settings.fetch_max_bytes)
    if most_bytes < 0:
        return None
    cold_reads = broker.cold_reads
    try:
        records = log.read_on(offset, most_bytes, high_watermark)
        if records is None:
            if cold_reads is not None and cold_reads.is_cold(log.region(offset, most_bytes)):
                return None
            records = log.read(offset, most_bytes, high_watermark)
    except (FolderFault, DamageAhead):
        return None
    if records is None or (size_bytes := records.length) < request.min_bytes:
        return None
    if cold_reads is not None:
        if size_bytes <= COPIED_BYTES:
            copied = cold_reads.copy(records)
            if copied is None:
                return None
            partition.bytes_out += size_bytes
            return (known.head(high_watermark, log_start_offset, size_bytes) + copied + known.tail,)
        if cold_reads.is_cold(records):
            return None
    partition.bytes_out += size_bytes
    head = known.head(high_watermark, log_start_offset, size_bytes)
    return (head, records, known.tail) if known.tail else (head, records)


def _wait_at_end(broker: Broker, version: int, known: SinglePartitionFetch, offset: int, peer: Peer) -> DeferredResponse | None:
    """Return the pending response to a cached fetch at the log's end, None for any other."""
    partition = _known_partition(broker, known)
    if partition is None or offset != partition.high_watermark:
        return None
    request = known.request
    wait_ms = min(request.max_wait_ms, broker.settings.fetch_max_wait_ms)
    if wait_ms <= 0 or request.min_bytes <= 0:
        return None
    parked = _Parked(broker, version, Repeated(known, offset), request.min_bytes, wait_ms, peer)
    return parked.deferred if parked.wait_at(1, (partition,)) else None


def _when_sure(broker: Broker, version: int, asked: Asked, peer: Peer, unsure: Sequence[Partition]) -> DeferredResponse:
    """Return the pending response to a fetch from behind the end: out of range where this broker leads, else for another one."""
    waiting, sure = set(unsure), set[Partition]()

    def answer() -> Chunks:
        return _chunks(broker, version, asked, collect(broker, asked, peer, sure), peer)

    deferred = DeferredResponse(deadline_ms=broker.loop.now_ms + SURE_WITHIN_MS, at_deadline=answer)

    def found(partition: Partition, leads: bool) -> None:
        waiting.discard(partition)
        if leads:
            sure.add(partition)
        if not waiting and not deferred.ended:
            deferred.complete(answer())

    for one in list(waiting):
        if isinstance(one, ReplicatedPartition):
            one.replica.when_sure(partial(found, one))
    return deferred


class _Parked:
    """A fetch that waits until its partitions have shown enough more bytes, or until the bytes that it wants are in memory.

    It tries again once, at the end of the loop's turn in which that happened, however many appends the turn had.
    """

    def __init__(
        self,
        broker: Broker,
        version: int,
        asked: Asked,
        missing_bytes: int,
        wait_ms: int,
        peer: Peer,
    ) -> None:
        self._broker = broker
        self._peer = peer
        """Its rights are looked at again when the data is there."""
        self._version = version
        self._asked = asked
        self._missing_bytes = missing_bytes
        self._is_due = self._is_cold = self._must_go = False
        self._waits_at: Sequence[Partition] = ()
        self._waits_in: FetchSession | None = None
        self._counts_for: int | None = None
        deadline_ms = broker.loop.now_ms + max(0, wait_ms)
        self.deferred = DeferredResponse(deadline_ms=deadline_ms, at_deadline=self._give_up, cancelled=self._leave)

    @property
    def _request(self) -> fetch.FetchRequest:
        return request_of(self._asked)

    def wait(self) -> bool:
        """Wait for the partitions. Return False, and do not wait, when parked fetches wait for too many already."""
        asked = self._asked
        if isinstance(asked, InSession):
            if asked.session.epoch != asked.epoch or not self.wait_at(1, ()):
                return False
            self._waits_in = asked.session
            asked.session.park(self)
            return True
        find = self._broker.partition_to_read
        named = [find(topic, wanted.index) for topic, partitions in self._request.topics for wanted in partitions]
        return self.wait_at(len(named), [partition for partition in named if partition is not None])

    def wait_at(self, count: int, partitions: Sequence[Partition]) -> bool:
        """Wait for `partitions`: those kept here, of `count` that the request names. Return False, and do not wait, when parked
        fetches wait for too many already. Hot: once a fetch of a consumer at the log's end.
        """
        broker = self._broker
        if broker.fetch_request_cache.parked_partitions + count > broker.settings.parked_partitions_max:
            return False
        broker.metrics.parked_fetches += 1
        broker.fetch_request_cache.parked_partitions += count
        self._counts_for = count
        self._waits_at = partitions
        for partition in partitions:
            partition.wait(self)
        return True

    def prefetch(self, cold: Sequence[Region]) -> bool:
        """Read `cold` into memory, then try again. Return False when no thread can read it now."""
        cold_reads = self._broker.cold_reads
        self._is_cold = cold_reads is not None and cold_reads.prefetch(cold, self._is_warm)
        return self._is_cold

    def shown(self, bytes_more: int) -> None:
        self._missing_bytes -= bytes_more
        if self._missing_bytes <= 0:
            self._look_again()

    def gone(self) -> None:
        self._look_again()

    def superseded(self) -> None:
        self._must_go = True
        self._look_again()

    def _is_warm(self) -> None:
        self._is_cold = False
        if self.deferred.ended:
            return
        request = self._request
        collected = collect(self._broker, self._asked, self._peer)
        deadline_ms = self.deferred.deadline_ms or 0
        is_late = self._must_go or self._broker.loop.now_ms >= deadline_ms
        if is_late or collected.size_bytes >= request.min_bytes or collected.must_go:
            self.deferred.complete(_chunks(self._broker, self._version, self._asked, collected, self._peer))
        else:
            self._missing_bytes = request.min_bytes - collected.size_bytes
            if not self.wait():
                self.deferred.complete(_chunks(self._broker, self._version, self._asked, collected, self._peer))

    def _look_again(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._broker.loop.at_turn_end(self._look)

    def _look(self) -> None:
        self._is_due = False
        if self.deferred.ended:
            return
        asked = self._asked
        is_plain = isinstance(asked, Repeated) and may_read(self._broker, self._peer, asked.known)
        answer = _answer_one(self._broker, *asked) if is_plain else None
        if answer is None:
            request = self._request
            collected = collect(self._broker, asked, self._peer)
            if collected.size_bytes < request.min_bytes and not collected.must_go and not self._must_go:
                # The new bytes lie beyond what this fetch may take, or at offsets that it did not ask for.
                self._missing_bytes = request.min_bytes - collected.size_bytes
                return
            answer = _chunks(self._broker, self._version, asked, collected, self._peer)
        self._leave()
        self.deferred.complete(answer)

    def _give_up(self) -> Chunks | None:
        if self._is_cold:
            self._must_go = True
            return None
        self._leave()
        return _chunks(self._broker, self._version, self._asked, collect(self._broker, self._asked, self._peer), self._peer)

    def _leave(self) -> None:
        for partition in self._waits_at:
            partition.wait_no_more(self)
        self._waits_at = ()
        if self._waits_in is not None:
            if self._waits_in.parked is self:
                self._waits_in.parked = None
            self._waits_in = None
        if self._counts_for is not None:
            self._broker.metrics.parked_fetches -= 1
            self._broker.fetch_request_cache.parked_partitions -= self._counts_for
            self._counts_for = None


def _check_count(request: fetch.FetchRequest) -> None:
    count = sum(len(topic.partitions) for topic in request.topics)
    if count > MOST_PARTITIONS:
        raise FrameRefused(f"a fetch from {count} partitions where {MOST_PARTITIONS} are taken: split it", "size")


def _cold(broker: Broker, asked: Asked) -> list[Region]:
    """Return the parts of files that are not in memory and that the response needs."""
    cold_reads = broker.cold_reads
    found: list[Region] = []
    if cold_reads is None:
        return found
    request = request_of(asked)
    left = min(request.max_bytes, broker.settings.fetch_max_bytes)
    for partition, wanted in to_read(broker, asked):
        if partition is None or left <= 0:
            continue
        log, offset = partition.log, wanted.fetch_offset
        if log.log_start_offset <= offset < partition.high_watermark:
            try:
                region = log.region(offset, max(0, min(wanted.partition_max_bytes, left)))
            except FolderFault:
                continue
            if region is not None:
                left -= len(region)
                if cold_reads.is_cold(region):
                    found.append(region)
    return found


def _chunks(broker: Broker, version: int, asked: Asked, collected: Collected, peer: Peer) -> Chunks:
    """Return the response. What it says of a session's partitions is noted as told."""
    session_id = 0
    if isinstance(asked, InSession):
        session, session_id = asked.session, asked.session.session_id
        if session.is_closed or session.epoch != asked.epoch:
            is_gone = session.is_closed
            return _failed(
                broker, version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND if is_gone else ErrorCode.INVALID_FETCH_SESSION_EPOCH
            )
        for one, answer in collected.seen:
            _told(session, one, answer)
    elif isinstance(asked, fetch.FetchRequest) and asked.session_epoch == 0 and version >= 7:
        session_id = _new_session(broker, version, asked, collected)
    for partition, length in collected.taken_from:
        partition.bytes_out += length
    if collected.must_go:
        for topic in collected.topics:
            for answer in topic.partitions:
                if answer.error_code:
                    broker.metrics.api(KEY).error(answer.error_code)
    response = fetch.FetchResponse(collected.topics, session_id=session_id)
    if collected.must_go:
        response = fetch_response(broker, version, peer.listener, response)
    return fetch.encode_response(version, response)  # type: ignore[return-value]  # bytes, and the log's own slices


def _failed(broker: Broker, version: int, error: int) -> Chunks:
    broker.metrics.api(KEY).error(error)
    return fetch.encode_response(version, fetch.FetchResponse((), error_code=error))  # type: ignore[return-value]  # bytes only


def _new_session(broker: Broker, version: int, request: fetch.FetchRequest, collected: Collected) -> int:
    """Return the id of a session of all that was asked for; 0 when there is no room for one."""
    sessions, now_ms = broker.fetch_sessions, broker.loop.now_ms
    count = sum(len(partitions) for _, partitions in request.topics)
    session = sessions.open(count, now_ms, is_privileged=request.replica_id >= 0)
    if session is None:
        return 0
    session.goes_by_ids = version >= fetch.FIRST_WITH_IDS
    sessions.update(session, request, now_ms)
    for topic, answers in collected.topics:
        for answer in answers:
            one = session.partitions[topic, answer.index]
            one.partition = broker.partition_to_read(topic, answer.index)
            if one in session.active:  # not so where a request names a partition twice
                _told(session, one, answer)
    return session.session_id


def _told(session: FetchSession, one: SessionPartition, answer: fetch.FetchResponsePartition) -> None:
    if answer.error_code:
        one.told(-1, answer.log_start_offset)
        return
    one.told(answer.high_watermark, answer.log_start_offset)
    if answer.high_watermark <= one.wanted.fetch_offset:
        session.rest(one)
    elif answer.records:
        session.served(one)
