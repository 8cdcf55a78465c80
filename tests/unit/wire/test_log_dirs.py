"""DescribeLogDirs answers written by hand, against kio's."""

import pytest

from headrace.wire import control, log_dirs
from headrace.wire.errors import ErrorCode

SIZES = {"clicks": [(0, 1 << 40), (300, 0)], "x" * 200: [(1, 7)], "empty": []}


@pytest.mark.parametrize("sizes", [SIZES, {}])
@pytest.mark.parametrize("version", range(1, 5))
def test_it_is_byte_for_byte_what_kio_writes(version: int, sizes: dict[str, list[tuple[int, int]]]) -> None:
    topics = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "partition_size": size, "offset_lag": 0, "is_future_key": False}
                for index, size in each
            ],
        }
        for name, each in sizes.items()
    ]
    result = {"error_code": 56, "log_dir": "/data", "topics": topics, "total_bytes": 1 << 42, "usable_bytes": 5}
    message = {"throttle_time_ms": 0, "error_code": 0, "results": [result]}
    written = log_dirs.encode_response(
        version, error=ErrorCode.KAFKA_STORAGE_ERROR, folder="/data", sizes=sizes, total_bytes=1 << 42, usable_bytes=5
    )
    assert written == control.encode_response(35, version, message)
