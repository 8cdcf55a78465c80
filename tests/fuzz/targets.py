"""One target for each decoder: a plain function that takes bytes and returns, whatever they are.

A decoder may refuse with its own errors (`WireError` and its kin). Any other exception is a finding, and so is a result that
breaks the decoder's promises. The first bytes choose version or codec, so that one search covers all of them. hypothesis
(`test_targets`) and atheris (`__main__`) run the same functions, and so do the tests over the corpus. The functions keep nothing
between calls.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.audit.model.codec import decode, encode
from headrace.audit.model.errors import MalformedReport
from headrace.audit.model.facts import Verdict
from headrace.audit.model.tier_reports import TierReports
from headrace.broker.groups.subscription import subscribed_topics
from headrace.broker.handlers.api_table import SUPPORTED
from headrace.broker.log import LogConfig, PartitionLog
from headrace.broker.log.errors import LogError, OldFormat
from headrace.broker.log.segment.sidecar import SidecarDamaged
from headrace.broker.log.segment.sidecar import decode as decode_sidecar
from headrace.broker.log.tools.check import check
from headrace.broker.network.request_header import FIXED_HEADER, FIXED_HEADER_SIZE, body_start
from headrace.wire import schema_id
from headrace.wire.batch.batch_placement import place
from headrace.wire.batch.compression import Codec, decompress
from headrace.wire.batch.crc32c import crc32c
from headrace.wire.batch.record import iter_records, iter_timestamps
from headrace.wire.batch.record_batch import crc_matches, iter_batches, read_header
from headrace.wire.errors import WireError
from headrace.wire.generators import run_to_end
from headrace.wire.messages import control, fetch, headers, list_offsets_v0, offset_commit_v1, produce
from headrace.wire.messages.single_partition_fetch import masked, offset_in, recognise
from headrace.wire.quarantine_record import QuarantineRecord
from tests.support.audit_world.hearing import hear, judged
from tests.support.audit_world.memory_journal import MemoryJournal
from tests.support.audit_world.records import WINDOW_MS

from . import targets_of_logins

Target = Callable[[bytes], None]

MOST_UNPACKED_BYTES = 1 << 20
CONTROL = sorted(
    (key, version) for key, (lowest, highest) in SUPPORTED.items() if key > 1 for version in range(lowest, highest + 1)
)
_CONTROL_SET = frozenset(CONTROL)
LOG_NAME = "00000000000000000000.log"


def produce_request(data: bytes) -> None:
    version, body = 3 + data[0] % 7 if data else 9, data[1:]
    try:
        request = produce.decode_request(version, body)
    except WireError:
        return
    for topic in request.topics:
        for partition in topic.partitions:
            assert partition.records is None or len(partition.records) <= len(body)


def produce_response(data: bytes) -> None:
    _refused(lambda: produce.decode_response(3 + data[0] % 7 if data else 9, data[1:]))


def fetch_request(data: bytes) -> None:
    version, body = 4 + data[0] % 9 if data else 12, data[1:]
    try:
        request = fetch.decode_request(version, body)
    except WireError:
        return
    known = recognise(version, body, request)
    if known is not None:
        # A batch that is recognised by its bytes equals the decoded one, at its own and at any other offset.
        offset = offset_in(version, body)
        assert known.at(offset) == request
        other = fetch.encode_request(version, known.at(offset ^ 0x5A5A5A5A))
        assert masked(version, other) == masked(version, body)


def fetch_response(data: bytes) -> None:
    _refused(lambda: fetch.decode_response(4 + data[0] % 9 if data else 12, data[1:]))


def control_request(data: bytes) -> None:
    key, version = _control(data)
    _refused(lambda: control.decode_request(key, version, data[2:]))


def control_response(data: bytes) -> None:
    key, version = _control(data)
    _refused(lambda: control.decode_response(key, version, data[2:]))


def commit_v1(data: bytes) -> None:
    _refused(lambda: run_to_end(offset_commit_v1.as_v2_in_steps(data)))


def list_offsets_oldest(data: bytes) -> None:
    _refused(lambda: run_to_end(list_offsets_v0.decode_in_steps(data)))


def request_header(data: bytes) -> None:
    _refused(lambda: headers.read_request_header(data))
    if len(data) >= FIXED_HEADER_SIZE:
        client_id_length = FIXED_HEADER.unpack_from(data)[4]
        for flexible in (False, True):
            try:
                at = body_start(memoryview(data), client_id_length, flexible=flexible)
            except WireError:
                continue
            assert FIXED_HEADER_SIZE <= at <= len(data)


def response_header(data: bytes) -> None:
    key, version = _control(data)
    _refused(lambda: headers.read_response_header(key, version, data[2:]))


def record_batch(data: bytes) -> None:
    try:
        header = read_header(data)
    except WireError:
        return
    if header.size_bytes <= len(data) and header.record_count > 0:
        batch = bytearray(data[: header.size_bytes])
        if crc_matches(batch, 0, header.size_bytes):
            place(batch, 1 << 40)
            assert crc_matches(batch, 0, header.size_bytes)
            assert read_header(batch).position == 1 << 40
    try:
        total = sum(len(one) for _, one in iter_batches(data))
    except WireError:
        return
    assert total <= len(data)


def records(data: bytes) -> None:
    for read in (iter_records, iter_timestamps):
        _refused(lambda read=read: sum(1 for _ in read(data, max_decompressed_bytes=MOST_UNPACKED_BYTES)))  # type: ignore[misc]


def compression(data: bytes) -> None:
    codec = Codec(data[0] % 5) if data else Codec.NONE
    try:
        unpacked = decompress(codec, data[1:], max_bytes=MOST_UNPACKED_BYTES)
    except WireError:
        return
    assert len(unpacked) <= MOST_UNPACKED_BYTES


def group_metadata(data: bytes) -> None:
    topics = subscribed_topics(data)
    assert topics is None or len(topics) <= len(data)


def value_frames(data: bytes) -> None:
    _refused(lambda: schema_id.unframe(data))
    _refused(lambda: QuarantineRecord.from_json(data))


def audit_report(data: bytes) -> None:
    """A report that is not refused is read the same from what is written of it, and can be taken in, stored and judged."""
    try:
        report = decode(data)
    except MalformedReport:
        return
    assert decode(encode(report)) == report
    journal = MemoryJournal(WINDOW_MS)
    books = TierReports(WINDOW_MS, journal.load_topic)
    for _ in range(2):
        try:
            hear(books, report, 1, journal)
        except MalformedReport:
            return  # of a run that is not known
    for topic in list(books.topics):
        before = _judged(books, topic)
        books.evict(topic)
        assert _judged(books, topic) == before


def sidecar(data: bytes) -> None:
    """Decode the bytes as they are, and with a correct CRC: otherwise no search gets past it."""
    for whole in (data, data[:-4] + crc32c(data[:-4]).to_bytes(4, "little")):
        try:
            decoded = decode_sidecar(whole)
        except SidecarDamaged:
            continue
        assert decode_sidecar(decoded.encode()).producers == decoded.producers


def log_recovery(data: bytes) -> None:
    """Open a log whose one segment is these bytes: it serves whole batches, and appending continues."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-log-"))
    try:
        (folder / LOG_NAME).write_bytes(data)
        config = LogConfig(segment_bytes=1 << 20)
        try:
            log = PartitionLog.open(folder, topic="f", partition=0, config=config, now_ms=1)
        except (LogError, OldFormat):
            return
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            found = log.read(offset, 4_096)
            if found is None:
                break
            for header, batch in iter_batches(found.read()):
                assert crc_matches(batch, 0, header.size_bytes), "a batch with a wrong CRC is served"
                assert header.next_offset > offset, "reading does not go on"
                offset = header.next_offset
        appended = log.append(bytearray(_BATCH), 2)
        assert appended.base_offset == end + len(_BATCH) - read_header(_BATCH).record_count
        log.close()
        again = PartitionLog.open(folder, topic="f", partition=0, config=config, now_ms=3)
        assert again.log_end_offset == appended.next_offset
        again.close()
        check(folder)
    finally:
        shutil.rmtree(folder)


def _judged(books: TierReports, topic: str) -> dict[int, Verdict]:
    windows = {start: one for start, one in books.book(topic).windows.items() if one.is_mentioned}
    return {start: judged(books, topic, start, heard_all_ms=9, now_ms=9) for start in windows}


def _control(data: bytes) -> tuple[int, int]:
    """Return the key and version in the first two bytes, or others if these do not exist."""
    named = (data[0], data[1]) if len(data) > 1 else CONTROL[0]
    return named if named in _CONTROL_SET else CONTROL[(named[0] << 8 | named[1]) % len(CONTROL)]


def _refused(read: Callable[[], object]) -> None:
    try:
        read()
    except WireError:
        pass


def _one_batch() -> bytes:
    from headrace.wire.batch.record_batch import BatchBuilder

    builder = BatchBuilder()
    builder.append(1_700_000_000_000, None, b"one")
    return builder.build()


_BATCH = _one_batch()

TARGETS: Mapping[str, Target] = {
    target.__name__: target
    for target in (
        produce_request,
        produce_response,
        fetch_request,
        fetch_response,
        control_request,
        control_response,
        commit_v1,
        list_offsets_oldest,
        request_header,
        response_header,
        record_batch,
        records,
        compression,
        group_metadata,
        value_frames,
        audit_report,
        sidecar,
        log_recovery,
        *targets_of_logins.TARGETS,
    )
}
"""By name, which is also the name of the folder in the corpus."""
