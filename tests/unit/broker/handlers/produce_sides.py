"""Two brokers that get the same Produce requests; one of them may use the fast path. Driven turn by turn on the test's thread."""

import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from headrace.broker.handlers.produce_run import RunOutcome
from headrace.broker.handlers.request_template import RequestTemplate
from headrace.wire.generators import run_to_end
from headrace.wire.messages import control, produce
from tests.support.raw_kafka import frame
from tests.unit.broker.driven import driven

TOPICS: dict[str, int | tuple[int, dict[str, str]]] = {
    "clicks": 2,
    "small": (1, {"max.message.bytes": "150"}),
    "rolls": (1, {"segment.bytes": "700"}),
    "copied": (1, {"headrace.mirror": "true"}),
    "stamped": (1, {"message.timestamp.type": "LogAppendTime"}),
}


class Side:
    """One broker of the two, driven turn by turn on this thread. `runs`: it may use the fast path."""

    def __init__(self, folder: Path, *, runs: bool, settings: dict[str, object] | None = None) -> None:
        self.broker, self.peer = driven(folder, TOPICS, settings)
        self.taken = 0
        self._runs = runs
        router: Any = self.broker.server.dispatch
        take = router.take_run

        def counted(template: RequestTemplate | None, buffer: memoryview, start: int, end: int, peer: str) -> RunOutcome:
            if not self._runs:
                return None, start, ()
            taken: RunOutcome = take(template, buffer, start, end, peer)
            self.taken += taken[1] > start
            return taken

        router.take_run = counted

    def memory(self) -> list[object]:
        """The logs' state besides their bytes."""
        return [
            (
                partition.topic,
                partition.index,
                partition.high_watermark,
                partition.messages_in,
                partition.bytes_in,
                list(partition.log.producers._producers.items()),
                partition.log.segments,
                run_to_end(partition.log.largest_timestamp()),
            )
            for partition in self.broker.table
        ]

    def close(self) -> None:
        self.peer.close()
        self.broker.close()


def compared(requests: bytes, cuts: Sequence[int], **settings: Any) -> Side:
    """Send both the same bytes, cut at the same positions, and compare them. Return the one with runs, closed."""
    # Nothing here depends on the disk; waiting for it would take most of the time. Nor on how much fits into a turn: on a busy
    # machine it may end in the middle, and what is answered before a connection closes would then differ.
    unhurried = (
        mock.patch("headrace.broker.network.frame_runner.TURN_NS", 1 << 62),
        mock.patch("headrace.broker.event_loop.response_generators.SLICE_NS", 1 << 62),
    )
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"), mock.patch("os.fdatasync"), unhurried[0], unhurried[1]:
        short, general = Side(Path(folder) / "s", runs=True, **settings), Side(Path(folder) / "g", runs=False, **settings)
        try:
            ends = sorted({*(cut for cut in cuts if cut < len(requests)), *range(0, len(requests), 60_000), len(requests)})
            for before, after in zip([0, *ends], ends, strict=False):
                if before < after:
                    for side in (short, general):
                        side.peer.send(requests[before:after])
            for side in (short, general):
                side.peer.finish()
            # Error messages name the folder.
            assert bytes(short.peer.answers).replace(b"/s/", b"/g/") == bytes(general.peer.answers)
            assert short.peer.connection.is_closed == general.peer.connection.is_closed
            assert short.broker.files() == general.broker.files()
            assert short.memory() == general.memory()
        finally:
            short.close()
            general.close()
        return short


def stream(*bodies: bytes, version: int = 9) -> bytes:
    return b"".join(frame(0, version, number, body) for number, body in enumerate(bodies))


def answered(answers: bytes | bytearray) -> list[tuple[int, int]]:
    """Return correlation id and error of each Produce v9 answer."""
    found = []
    at = 0
    while at < len(answers):
        (size,) = struct.unpack_from(">i", answers, at)
        correlation_id, start = control.read_response_header(0, 9, answers[at + 4 : at + 4 + size])
        body = memoryview(answers)[at + 4 + start : at + 4 + size]
        found.append((correlation_id, produce.decode_response(9, body).topics[0].partitions[0].error_code))
        at += 4 + size
    return found
