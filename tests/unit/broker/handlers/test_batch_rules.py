"""Which batches a log may hold. Pure. `test_produce_run` checks that both paths of Produce follow these rules."""

import pytest

from headrace.broker.handlers.batch_rules import MOST_RECORDS, fault_of
from headrace.wire.batch.append_time import LOG_APPEND_TIME
from headrace.wire.errors import ErrorCode

PLAIN, GZIP, ZSTD = 0, 1, 4
ROOM = 1_000


def code(
    attributes: int = PLAIN,
    size_bytes: int = ROOM,
    record_count: int = 3,
    last_offset_delta: int = 2,
    producer: tuple[int, int, int] = (-1, -1, -1),
    *,
    of_mirror: bool = False,
) -> ErrorCode | None:
    fault = fault_of(attributes, size_bytes, record_count, last_offset_delta, producer, of_mirror=of_mirror)
    return None if fault is None else fault[0]


@pytest.mark.parametrize("of_mirror", [False, True])
def test_usual_batches_are_taken(of_mirror: bool) -> None:
    assert code(of_mirror=of_mirror) is None
    assert code(ZSTD, of_mirror=of_mirror) is None
    assert code(producer=(7, 0, 0), of_mirror=of_mirror) is None
    assert code(GZIP, 70, MOST_RECORDS, MOST_RECORDS - 1, of_mirror=of_mirror) is None


@pytest.mark.parametrize("of_mirror", [False, True])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"attributes": 0x10}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"attributes": GZIP, "record_count": MOST_RECORDS + 1, "last_offset_delta": MOST_RECORDS}, ErrorCode.INVALID_RECORD),
        ({"size_bytes": 61 + 3 * 7 - 1}, ErrorCode.INVALID_RECORD),
        ({"record_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 3}, ErrorCode.INVALID_RECORD),
        ({"producer": (7, -1, 0)}, ErrorCode.INVALID_RECORD),
        ({"producer": (7, 0, -1)}, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_batch_that_breaks_a_rule_is_refused_whoever_sends_it(
    fields: dict[str, object], expected: ErrorCode, of_mirror: bool
) -> None:
    assert code(**fields, of_mirror=of_mirror) is expected  # type: ignore[arg-type]


def test_only_a_mirror_brings_batches_with_a_brokers_time() -> None:
    assert code(LOG_APPEND_TIME, of_mirror=True) is None
    assert code(LOG_APPEND_TIME) is ErrorCode.INVALID_TIMESTAMP
    assert code(LOG_APPEND_TIME, producer=(7, -1, 0)) is ErrorCode.INVALID_RECORD, "the sequence is looked at first"
