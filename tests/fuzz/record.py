"""Records what real clients send to a real broker and writes it into the corpus: `python -m tests.fuzz.record ZOOKEEPER_ADDRESS`.

One frame for each API, version and client. `corpus/frames` holds whole requests for the whole broker, other folders the inputs of
their decoders.
"""

import sys
import tempfile
import time
from pathlib import Path

from headrace.wire.batch.compression import Codec
from headrace.wire.messages import control, headers
from headrace.wire.messages.fetch import decode_response as decode_fetched
from headrace.wire.messages.produce import decode_request as decode_produced
from tests.support.broker import BrokerProcess
from tests.support.processes import free_port

from .real_clients import live
from .recording_proxy import RecordingProxy
from .seeds import FOLDER
from .targets import CONTROL

LARGEST_BYTES = 4_096


def main() -> int:
    port = free_port()
    with RecordingProxy(port) as proxy, tempfile.TemporaryDirectory() as folder:
        settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        with BrokerProcess(Path(folder), f"{sys.argv[1]}/fuzz-{time.time_ns()}", port=port, settings=settings) as broker:
            topic = live(f"127.0.0.1:{proxy.port}")
            for log in sorted((broker.data / f"{topic}-0").glob("*.log")):
                _put("log_recovery", "real", log.read_bytes()[:LARGEST_BYTES])
    for frame in proxy.requests:
        _request(frame)
    for key, version, frame in proxy.responses:
        _response(key, version, frame)
    return 0


def _request(frame: bytes) -> None:
    header, at = headers.read_request_header(frame[4:])
    body, version = frame[4 + at :], header.api_version
    client = "kafka-python" if "kafka-python" in (header.client_id or "") else "librdkafka"
    name = f"{header.api_key:02d}-v{version}-{client}"
    _put("frames", name, frame)
    _put("request_header", name, frame[4:])
    if header.api_key == 0:
        _put("produce_request", name, bytes([version - 3]) + body)
        for produced in decode_produced(version, body).topics:
            for partition in produced.partitions:
                if partition.records is not None:
                    records = bytes(partition.records)
                    codec = Codec(records[22] & 7)
                    _put("record_batch", f"{codec.name.lower()}-{client}", records)
                    _put("records", f"{codec.name.lower()}-{client}", records)
                    _put("compression", f"{codec.name.lower()}-{client}", bytes([codec]) + records[61:])
    elif header.api_key == 1:
        _put("fetch_request", name, bytes([version - 4]) + body)
    elif (header.api_key, version) in CONTROL:
        _put("control_request", name, bytes([header.api_key, version]) + body)
        if header.api_key == 11:
            joined = control.decode_request(11, version, body)
            for offer in joined.protocols:
                _put("group_metadata", f"{offer.name}-{client}", bytes(offer.metadata))


def _response(key: int, version: int, frame: bytes) -> None:
    at = headers.read_response_header(key, version, frame[4:])[1]
    body, name = frame[4 + at :], f"{key:02d}-v{version}"
    if key == 0:
        _put("produce_response", name, bytes([version - 3]) + body)
    elif key == 1:
        if any(len(one.records or b"") for topic in decode_fetched(version, body).topics for one in topic.partitions):
            _put("fetch_response", name, bytes([version - 4]) + body)
    elif (key, version) in CONTROL:
        _put("control_response", name, bytes([key, version]) + body)
        _put("response_header", name, bytes([key, version]) + frame[4:])


def _put(target: str, name: str, data: bytes) -> None:
    path = FOLDER / target / f"{name}.bin"
    if len(data) <= LARGEST_BYTES and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


if __name__ == "__main__":
    sys.exit(main())
