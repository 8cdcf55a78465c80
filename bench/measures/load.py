"""From the broker to a committed table: rows a second and processor time, ours and Spark's own Kafka source, with start and warm.

Ours writes Parquet and commits it to an Iceberg table with its digests; the peer writes Parquet by hour, and proves nothing.
"""

import json
import shutil
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.spark.source.columns import SYSTEM_COLUMNS, writer_columns
from headrace.spark.source.decoding import BlockDecoder
from headrace.spark.source.split_reader import BLOCK_RECORDS
from headrace.wire.batch.record_batch import Record

from ..harness.child import BenchFault, Child, free_port
from ..harness.measure import Case, CaseStream, Figures
from ..harness.servers import Servers
from ..harness.unavailable import Unavailable
from ..load import topic
from ..load.sessions import Session
from ..peers import spark_source
from ..peers.headrace import Headrace
from ..peers.subjects import OURS

ROWS = 2_000_000
LITTLE = 3_000
_MUCH, _FEW = "load-much", "load-little"
_READY_S = 60.0

Open = Callable[[str, Path], Session]
"""Starts a side for a topic, with a folder for its log and scratch."""


class Load:
    """Loads of one hour: much of it, and little."""

    name = "load"
    title = "From the broker to a committed table: Avro events of ten fields and 93 bytes, three partitions, one hour"
    needs = frozenset({OURS})
    warm_ups = 0
    at_most = 5

    @contextmanager
    def cases(self, servers: Servers) -> CaseStream:
        server = servers.running(OURS)
        if not isinstance(server, Headrace):
            raise Unavailable("a load needs a broker of ours")
        count, folder = servers.scaled(ROWS), servers.folder / "load"
        folder.mkdir(parents=True, exist_ok=True)
        with _registry(server, folder) as registry:
            size = topic.fill(server.bootstrap, registry, _MUCH, count)
            topic.fill(server.bootstrap, registry, _FEW, LITTLE)
            how = f"{count:,} rows of {size:.0f} bytes, local[2]"

            def ours(name: str, here: Path) -> Session:
                words = [sys.executable, str(Path(__file__).parents[1] / "load" / "our_session.py")]
                return Session([*words, name, server.bootstrap, registry], here / "log", {"TMPDIR": str(here)})

            def peer(name: str, here: Path) -> Session:
                words = [str(spark_source.python()), str(Path(__file__).parents[1] / "load" / "peer_session.py")]
                words += [name, server.bootstrap, json.dumps(topic.SCHEMA), str(spark_source.jars()), str(here)]
                return Session(words, here / "log", {"PYTHONPATH": "", "PYSPARK_PYTHON": str(spark_source.python())})

            yield [
                *_cases(OURS, ours, folder, count, f"{how}; Parquet, Iceberg, digests"),
                *_cases(spark_source.NAME, peer, folder, count, f"{how}; from_avro, Parquet by hour; {spark_source.VERSION}"),
                Case(
                    subject=OURS,
                    shape="decoding alone",
                    run=lambda turn: _decoded(),
                    how="flat schema, one core, blocks of 8,192",
                ),
            ]


def _cases(subject: str, open_: Open, folder: Path, count: int, how: str) -> Iterator[Case]:
    def from_start(name: str, rows: int) -> Callable[[int], Figures]:
        def run(turn: int) -> Figures:
            with _folder(folder) as here:
                began = time.monotonic()
                session = open_(name, here)
                try:
                    session.load(here / "rows")
                finally:
                    used_s = session.close()
                took_s = time.monotonic() - began
                _check(here / "rows", rows)
                return _figures(rows, took_s, used_s)

        return run

    def warm(turn: int) -> Figures:
        with _folder(folder) as here:
            session = open_(_MUCH, here)
            try:
                session.load(here / "first")
                shutil.rmtree(here / "first")
                used_s, began = session.used_s(), time.monotonic()
                session.load(here / "second")
                figures = _figures(count, time.monotonic() - began, session.used_s() - used_s)
                _check(here / "second", count)
                return figures
            finally:
                session.close()

    yield Case(subject=subject, shape="start included", run=from_start(_MUCH, count), how=how)
    yield Case(subject=subject, shape="warm", run=warm, how="a second load in the same session")
    yield Case(subject=subject, shape="little, start included", run=from_start(_FEW, LITTLE), how=f"{LITTLE:,} rows")


def _figures(rows: int, wall_s: float, used_s: float) -> Figures:
    return {"rows_per_s": rows / wall_s, "seconds": wall_s, "cpu_s": used_s, "cpu_us_per_row": used_s / rows * 1e6}


def _check(folder: Path, rows: int) -> None:
    found = sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))
    if found != rows:
        raise BenchFault(f"{found} of {rows} rows were loaded")


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    here = parent / uuid.uuid4().hex[:8]
    here.mkdir()
    try:
        yield here
    finally:
        shutil.rmtree(here, ignore_errors=True)


@contextmanager
def _registry(server: Headrace, folder: Path) -> Iterator[str]:
    port = free_port()
    words = [sys.executable, "-m", "headrace.cli.main", "registry", "run", "--port", str(port)]
    words += ["--bootstrap", server.bootstrap, "--status-file", str(folder / "registry.json")]
    child = Child(words, folder / "registry.log", port=port)
    child.start()
    try:
        _await_ready(f"http://127.0.0.1:{port}/readyz")
        yield f"http://127.0.0.1:{port}"
    finally:
        child.stop()


def _await_ready(url: str) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _decoded() -> Figures:
    """Return how fast blocks of records become Arrow batches of the table's columns: no broker, no digest, no file."""
    columns = writer_columns(json.dumps(topic.SCHEMA))
    target = pa.schema([*columns.fields(), *SYSTEM_COLUMNS])
    decoder = BlockDecoder(target, 0, lambda schema_id: json.dumps(topic.SCHEMA))
    values = topic.framed(1, 12 * BLOCK_RECORDS)
    blocks = [
        [_record(offset, value) for offset, value in enumerate(values[first : first + BLOCK_RECORDS], first)]
        for first in range(0, len(values), BLOCK_RECORDS)
    ]
    decoder.decode(blocks[0])
    began, used = time.monotonic(), time.process_time()
    for _ in range(3):
        for block in blocks:
            assert sum(rows.num_rows for rows in decoder.decode(block).rows) == len(block)
    return _figures(3 * len(values), time.monotonic() - began, time.process_time() - used)


def _record(offset: int, value: bytes) -> Record:
    return Record(offset=offset, timestamp_ms=topic.BEGIN_MS + offset, key=None, value=value, headers=())
