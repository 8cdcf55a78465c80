"""The fast path of Produce: requests that came in one read are appended with one write a partition and answered together.

With one message a request, decoding, checking and answering field by field costs 30 µs and two system calls each. From one
request of a connection to the next only correlation id, partition, CRC, timestamps, sequence and records differ. So the other
bytes (the `RequestTemplate`: version, client id, acks, timeout, topic) are compared, not decoded. What follows from a request's
length (the `BatchLayout`) is computed once for all requests of that length. A request then costs one `unpack_from`, one CRC and
one `pack`: 2.1 µs, with its part of the system calls.

A run takes versions 3 to 10, one partition a request, one valid batch, the next sequence. It stops before any other request and
leaves it to the general path (`produce.py`), which alone handles errors, duplicates, mirrored topics, append times and full
segments. A write that fails has appended nothing; the general path then answers each of its requests with its own error.
`tests/unit/broker/handlers/test_produce_run.py` compares both paths. The buffer is never written to, and nothing of it is kept.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Protocol

from ...wire.batch.batch_header import HEADER_SIZE, LENGTH_PREFIX_SIZE, MAGIC
from ...wire.batch.crc32c import crc32c
from ...wire.messages import produce
from ..event_loop.deferred_response import Chunks, DeferredResponse
from ..log import AppendFailed, LogUnusable
from ..log.segment.batch_run import MOST_PIECES, BatchRun
from ..metrics import ApiMetrics, clock_ns
from ..network.peer import Peer
from ..network.request_header import FIXED_HEADER, FIXED_HEADER_SIZE, client_id
from ..partitions.partition import Fault, PartitionTable
from ..quotas.quotas import Quotas
from ..rights.rule import Operation
from .access.control import AccessControl
from .request_template import NO_LAYOUT, PLACED, Key, PartitionResponse, RequestTemplate, layout_of, read_template

MOST_REQUESTS = MOST_PIECES // 2
"""Requests in one run. Each has two pieces: a new header, and the rest as it was received."""
MOST_TEMPLATES = 5_000
"""About 600 bytes each. With more, the oldest is forgotten."""
RESPONSES_SPARED = 1_000
"""Responses of removed partitions are forgotten in a sweep. The next one comes when there are twice as many responses as after
the last one, and so many more."""

_PRODUCER = struct.Struct(">qhi")
_NO_PRODUCER = _PRODUCER.pack(-1, -1, -1)
_SEQUENCES = 0x7FFFFFFF

Answer = bytes | Chunks | DeferredResponse | None
RunOutcome = tuple[RequestTemplate | None, int, Sequence[Answer]]
"""The template for the next call, the position of the first unused byte, and the responses in order."""


class General(Protocol):
    """Answers one frame (the router)."""

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: Peer
    ) -> Answer: ...


class _Part:
    """One partition's part of a run."""

    __slots__ = (
        "base_offsets",
        "due",
        "epoch",
        "largest",
        "limit",
        "pieces",
        "position",
        "positions",
        "producer_id",
        "records",
        "response",
        "sequences",
        "stamps",
    )

    def __init__(self, response: PartitionResponse, position: int, limit: int) -> None:
        self.response = response
        self.position = position
        """The position of the next batch."""
        self.limit = limit
        self.largest = response.partition.settings.max_message_bytes
        self.records = 0
        self.pieces: list[bytes | memoryview] = []
        self.positions: list[int] = []
        self.base_offsets: list[int] = []
        self.stamps: list[int] = []
        self.sequences: list[tuple[int, int, int]] = []
        self.producer_id = self.epoch = self.due = -1

    def append(self, now_ms: int) -> bool:
        """Append the part to the log. Return whether it succeeded; if not, nothing was appended. The caller calls `appended`."""
        run = BatchRun(self.pieces, self.positions, self.stamps, self.position, self.producer_id, self.sequences)
        try:
            self.response.partition.log.append_run(run, now_ms)
        except (AppendFailed, LogUnusable):
            return False
        return True


_Span = tuple[int, _Part]
"""Consecutive requests of one part: the index of the first one, and the part. The next span begins where this one ends."""


class ProduceRuns:
    """Answers runs of Produce requests from the connections' receive buffers. One for each broker, on the loop thread."""

    def __init__(
        self,
        partitions: PartitionTable,
        now_ms: Callable[[], int],
        metrics: ApiMetrics,
        general: General,
        access: AccessControl | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self._quotas = quotas
        self._partitions = partitions
        self._now_ms = now_ms
        self._metrics = metrics
        self._latency = metrics.latency
        self._general = general
        self._access = access
        self._templates: dict[Key, RequestTemplate] = {}
        self._responses: dict[tuple[str, int], dict[int, PartitionResponse]] = {}
        """By topic and version."""
        self._response_count, self._sweep_at = 0, RESPONSES_SPARED

    def take(self, template: RequestTemplate | None, buffer: memoryview, start: int, end: int, peer: Peer) -> RunOutcome:
        """Append the run of requests that begins at `buffer[start]`, as far as it goes before `end`, and answer it.

        `template` is the one that the connection's last run returned. An empty run has changed nothing. After a failed write it
        raises what the general path raises.
        """
        if peer.guard is not None:
            peer.guard.check(produce.API_KEY)
        if (quotas := self._quotas) is not None and quotas.is_on and _has_quota(quotas, buffer, start, end, peer):
            return template, start, ()  # the general path counts what each request uses
        if template is not None:
            taken = self._take(template, buffer, start, end, peer)
            if taken[1] > start:
                return taken
        found = self._template_of(buffer, start, end)
        if found is None or found is template:
            return template, start, ()
        return self._take(found, buffer, start, end, peer)

    def _take(self, template: RequestTemplate, buffer: memoryview, start: int, end: int, peer: Peer) -> RunOutcome:
        """Hot: once a run, its loop once a request. One long function, because a call costs a tenth of a request."""
        begun_ns = clock_ns()
        if self._access is not None and not self._access.could(peer, Operation.WRITE, template.topic):
            return template, start, ()  # the general path refuses them, and writes it into the trail
        now_ms = self._now_ms()
        prefix, unpack, layout = template.prefix, template.unpack, template.layout or NO_LAYOUT
        word_due, lead_due, kind_due, frame_bytes, size_bytes, record_count = layout
        length = size_bytes - LENGTH_PREFIX_SIZE
        body_at = template.size - HEADER_SIZE + PLACED.size
        tail = b"\0\0\0" if template.version >= produce.FIRST_FLEXIBLE else b""
        tail_bytes = len(tail)
        correlation_ids: list[int] = []
        parts: dict[int, _Part] = {}
        spans: list[_Span] = []
        part: _Part | None = None
        part_index = records = position = limit = largest = run_producer = run_epoch = due = -1
        leader_epoch = 0
        at = start
        last = end - template.size
        while at <= last:
            word, correlation_id, begins, index, lead, crc, kind, max_timestamp_ms, producer, count = unpack(buffer, at)
            if begins != prefix:
                break
            if word != word_due or lead != lead_due or kind != kind_due:
                new = layout_of(template, word, lead, kind)
                if new is None:
                    break
                layout = new
                word_due, lead_due, kind_due, frame_bytes, size_bytes, record_count = layout
                length = size_bytes - LENGTH_PREFIX_SIZE
            if index != part_index or part is None:
                other = parts.get(index)
                if other is None:
                    other = self._part(template, index, now_ms)
                    if other is None:
                        break
                    parts[index] = other
                if part is not None:
                    part.position, part.records, part.due = position, records, due
                part, part_index = other, index
                spans.append((len(correlation_ids), part))
                position, limit, largest, records = part.position, part.limit, part.largest, part.records
                pieces, positions, base_offsets = part.pieces, part.positions, part.base_offsets
                stamps, sequences = part.stamps, part.sequences
                run_producer, run_epoch, due = part.producer_id, part.epoch, part.due
                leader_epoch = part.response.partition.leader_epoch
            frame_end = at + frame_bytes
            next_position = position + size_bytes
            if frame_end > end or next_position > limit or size_bytes > largest or count != record_count:
                break
            body = buffer[at + body_at : frame_end - tail_bytes]
            base_offset = next_position - record_count
            if crc32c(body) != crc or (tail_bytes and buffer[frame_end - 3 : frame_end] != tail):
                break
            if producer != _NO_PRODUCER:
                producer_id, epoch, sequence = _PRODUCER.unpack(producer)
                if producer_id >= 0:
                    if run_producer < 0:
                        known = part.response.partition.log.producers.due(producer_id, epoch)
                        if known is None:
                            break
                        run_producer, run_epoch, due = part.producer_id, part.epoch, _ = producer_id, epoch, known
                    if producer_id != run_producer or epoch != run_epoch or sequence != due:
                        break
                    due = (sequence + record_count) & _SEQUENCES
                    sequences.append((sequence, record_count, base_offset))
            pieces += (PLACED.pack(base_offset, length, leader_epoch, MAGIC, crc), body)
            correlation_ids.append(correlation_id)
            positions.append(position)
            base_offsets.append(base_offset)
            stamps.append(max_timestamp_ms)
            records += record_count
            position = next_position
            at = frame_end
            if len(correlation_ids) == MOST_REQUESTS:
                break
        if part is None or not correlation_ids:
            return template, start, ()
        part.position, part.records = position, records
        template.layout = layout
        taking = [one for one in parts.values() if one.positions]
        # Write all parts before any call of `appended`: a notified waiter may append more, and these batches have their offsets
        # already.
        failed = {id(one) for one in taking if not one.append(now_ms)}
        for one in taking:
            if id(one) not in failed:
                one.response.partition.appended(one.records, one.position - one.positions[0])
        answers: Sequence[Answer]
        if failed:
            answers = self._answer_singly(template, buffer, start, correlation_ids, spans, failed, peer)
        elif template.acks == 0:
            answers = ()
        else:
            answer = _answers(correlation_ids, spans)
            waits = [one for one in taking if one.response.partition.answers_later]
            if waits:
                answer_failed = partial(_answers, correlation_ids, spans)
                pending = self._when_acknowledged(template, answer, waits, answer_failed, len(correlation_ids), begun_ns)
                return template, at, (pending,)
            answers = (answer,)
        self._latency.add(clock_ns() - begun_ns, len(correlation_ids))
        return template, at, answers

    def _part(self, template: RequestTemplate, index: int, now_ms: int) -> _Part | None:
        """Return a new part for a partition, None when the general path has to take the request."""
        response = template.responses.get(index)
        if response is None or response.partition.is_gone:
            partition = self._partitions.get(template.topic, index)
            if partition is None:
                return None
            if response is None:
                self._response_count += 1
            response = template.responses[index] = PartitionResponse(partition, template.version)
            if self._response_count > self._sweep_at:
                self._sweep()
        partition = response.partition
        settings = partition.settings
        if settings.is_mirror or settings.stamps_append_time:
            return None
        if partition.is_replicated and partition.why_no_append(template.acks) is not None:
            return None
        room = partition.log.run_room(now_ms)
        return None if room is None else _Part(response, *room)

    def _sweep(self) -> None:
        """Forget the responses of removed partitions."""
        self._response_count = 0
        for responses in self._responses.values():
            for index in [index for index, response in responses.items() if response.partition.is_gone]:
                del responses[index]
            self._response_count += len(responses)
        self._sweep_at = 2 * self._response_count + RESPONSES_SPARED
        self._responses = {key: responses for key, responses in self._responses.items() if responses}
        self._templates = {key: template for key, template in self._templates.items() if template.responses}

    def _answer_singly(
        self,
        template: RequestTemplate,
        buffer: memoryview,
        start: int,
        correlation_ids: Sequence[int],
        spans: Sequence[_Span],
        failed: set[int],
        peer: Peer,
    ) -> list[Answer]:
        """Answer each request of a run by itself; the general path answers those whose part's write has failed."""
        answers: list[Answer] = []
        at = start
        for correlation_id, part, base_offset in _requests(correlation_ids, spans):
            size, api_key, version, _, client_id_length = FIXED_HEADER.unpack_from(buffer, at)
            frame = buffer[at : at + 4 + size]
            at += 4 + size
            if id(part) in failed:
                answers.append(self._general.answer(frame, api_key, version, correlation_id, client_id_length, peer))
            elif template.acks != 0:
                answer = part.response.answer(correlation_id, base_offset)
                if part.response.partition.answers_later:
                    answer_failed = partial(_failed_answer, part.response, correlation_id)
                    answers.append(self._when_acknowledged(template, answer, [part], answer_failed, 1, clock_ns()))
                else:
                    answers.append(answer)
        return answers

    def _when_acknowledged(
        self,
        template: RequestTemplate,
        answer: bytes,
        waits: Sequence[_Part],
        answer_failed: Callable[[dict[int, Fault]], bytes],
        request_count: int,
        begun_ns: int,
    ) -> DeferredResponse:
        """Return a DeferredResponse: `answer` when every part in `waits` is as safe as the request and its topic ask, else what
        `answer_failed` returns for the faults of the failed parts."""
        deferred = DeferredResponse()
        deferred.expected_bytes = len(answer)
        failed: dict[int, Fault] = {}
        waiting_count = len(waits)

        def acknowledged(part: _Part, fault: Fault | None) -> None:
            nonlocal waiting_count
            if fault is not None:
                failed[id(part)] = fault
                self._metrics.error(fault[0], len(part.positions))
            waiting_count -= 1
            if waiting_count == 0:
                self._latency.add(clock_ns() - begun_ns, request_count)
                deferred.complete((answer_failed(failed) if failed else answer,))

        for part in waits:
            part.pieces = []  # views into the buffer, which is used again before the flush ends
            end_offset, done = part.position, partial(acknowledged, part)
            part.response.partition.when_acknowledged(end_offset, template.acks, template.timeout_ms, done)
        return deferred

    def _template_of(self, buffer: memoryview, start: int, end: int) -> RequestTemplate | None:
        """Return the template of the request at `start`, None when the general path has to take it."""
        found = read_template(buffer, start, end)
        if found is None:
            return None
        key, topic, acks, timeout_ms = found
        template = self._templates.get(key)
        if template is None:
            if not self._partitions.of_topic(topic):
                return None
            if len(self._templates) >= MOST_TEMPLATES:
                del self._templates[next(iter(self._templates))]
            template = self._templates[key] = RequestTemplate(
                key, topic, acks, timeout_ms, self._responses.setdefault((topic, key[0]), {})
            )
        return template


def _has_quota(quotas: Quotas, buffer: memoryview, start: int, end: int, peer: Peer) -> bool:
    if end - start < FIXED_HEADER_SIZE:
        return False
    length = FIXED_HEADER.unpack_from(buffer, start)[4]
    return quotas.of(peer.principal.name, client_id(buffer[start:end], length)) is not None


def _answers(correlation_ids: Sequence[int], spans: Sequence[_Span], failed: Mapping[int, Fault] = MappingProxyType({})) -> bytes:
    """Return the responses of a run, joined. `failed` has the faults of the parts that are not acknowledged, by their ids."""
    if len(spans) == 1 and not failed:
        part = spans[0][1]
        pack, size, middle, rest = part.response.ready()
        return b"".join(
            [pack(size, number, middle, base, rest) for number, base in zip(correlation_ids, part.base_offsets, strict=True)]
        )
    return b"".join(
        [
            part.response.refusal(correlation_id, failed[id(part)])
            if id(part) in failed
            else part.response.answer(correlation_id, base_offset)
            for correlation_id, part, base_offset in _requests(correlation_ids, spans)
        ]
    )


def _failed_answer(response: PartitionResponse, correlation_id: int, failed: Mapping[int, Fault]) -> bytes:
    (fault,) = failed.values()
    return response.refusal(correlation_id, fault)


def _requests(correlation_ids: Sequence[int], spans: Sequence[_Span]) -> Iterator[tuple[int, _Part, int]]:
    """Yield each request of a run: its correlation id, its part and its base offset."""
    answered: dict[int, int] = {}
    ends = [begin for begin, _ in spans[1:]] + [len(correlation_ids)]
    for (begin, part), end in zip(spans, ends, strict=True):
        done = answered.get(id(part), 0)
        answered[id(part)] = done + end - begin
        for number, base_offset in zip(correlation_ids[begin:end], part.base_offsets[done : done + end - begin], strict=True):
            yield number, part, base_offset
