"""Compressed bodies: taken as the same plain, bounded when unpacked, refused with a reason; nothing of those is journaled."""

import gzip
import http.client
import json
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headrace.agent.receive.content_encoding import EncodingRefused, codec_of, unpacked
from headrace.wire.batch import compression
from headrace.wire.batch.compression import Codec

from .received import Running

NDJSON = "application/x-ndjson"


def section(**words: Any) -> dict[str, Any]:
    fields = {"page": "string", "n": "int"}
    return {"http": [{"topic": "clicks", "listen": "127.0.0.1:0", "fields": fields, "durable": False, **words}]}


def post(running: Running, body: bytes, *encodings: str, kind: str = NDJSON) -> tuple[int, dict[str, Any], str | None]:
    """Return status, words and the header Accept-Encoding of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", running.one.port, timeout=20)
    try:
        connection.putrequest("POST", "/topics/clicks")
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body)))):
            connection.putheader(name, value)
        for encoding in encodings:
            connection.putheader("Content-Encoding", encoding)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()), answer.getheader("Accept-Encoding")
    finally:
        connection.close()


def test_gzip_and_zstd_are_taken_as_the_same_body_plain(tmp_path: Path) -> None:
    lines = b"".join(b'{"page": "/", "n": %d}\n' % n for n in range(1000))
    half = len(lines) // 2
    with Running(tmp_path, **section()) as running:
        for body, encoding in (
            (gzip.compress(lines), "gzip"),
            (gzip.compress(lines[:half]) + gzip.compress(lines[half:]), "X-GZIP"),
            (zstandard.ZstdCompressor().compress(lines), "zstd"),
            (zstandard.ZstdCompressor(write_content_size=False).compress(lines), "identity, Zstd"),
        ):
            assert len(body) < len(lines) // 5
            assert post(running, body, encoding)[:2] == (202, {"accepted": 1000})
        assert post(running, gzip.compress(b'{"n": 1000}'), "gzip", kind="application/json")[0] == 202
        assert [one["n"] for one in running.journaled()] == [*range(1000)] * 4 + [1000]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_refused_at_the_bound_and_the_bound_itself_is_taken(tmp_path: Path, encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor().compress
    with Running(tmp_path, **section(most_body_bytes=100_000)) as running:
        fits = b'{"n": 1}' + b"\n" * 99_992
        assert post(running, pack(fits), encoding)[:2] == (202, {"accepted": 1})
        status, words, _ = post(running, pack(fits + b"\n"), encoding)
        assert status == 413
        assert "100000 (most_body_bytes)" in words["error"]
        bomb = pack(bytes(64 << 20))
        assert len(bomb) < 100_000
        assert post(running, bomb, encoding)[0] == 413
        assert post(running, b'{"n": 2}')[0] == 202, "it goes on"
        assert [one["n"] for one in running.journaled()] == [1, 2]
        assert running.events["bodies_not_unpacked"] == 2


def test_a_damaged_body_is_a_reason_and_an_unknown_coding_is_not_read(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"n": 1}\n' * 100)
    with Running(tmp_path, **section(invalid="quarantine")) as running:
        for body, encoding in (
            (whole[:-1], "gzip"),
            (whole[:-8] + bytes(4) + whole[-4:], "gzip"),
            (b"", "gzip"),
            (b'{"n": 1}', "gzip"),
            (whole, "zstd"),
            (zstandard.ZstdCompressor().compress(b'{"n": 1}' * 99)[:-2], "zstd"),
        ):
            status, words, _ = post(running, body, encoding)
            assert (status, words["accepted"]) == (400, 0), words
            assert "not whole" in words["error"]
        for encodings in (("br",), ("deflate",), ("gzip, gzip",), ("gzip", "zstd")):
            status, words, known = post(running, whole, *encodings)
            assert (status, known) == (415, "gzip, zstd")
            assert encodings[0].partition(",")[0] in words["error"]
        assert post(running, whole, "gzip", kind="text/plain")[::2] == (415, None), "the type is meant, and not the coding"
        assert running.journaled() == running.quarantined() == []


@pytest.mark.needs("curl")
def test_curl_posts_a_file_that_gzip_made(tmp_path: Path) -> None:
    packed = tmp_path / "events.ndjson.gz"
    with gzip.open(packed, "wb") as file:
        file.writelines(b'{"n": %d}\n' % n for n in range(5000))
    with Running(tmp_path, **section()) as running:
        url = f"http://127.0.0.1:{running.one.port}/topics/clicks"
        words = ["curl", "-sS", "-H", f"Content-Type: {NDJSON}", "-H", "Content-Encoding: gzip", "--data-binary"]
        done = subprocess.run([*words, f"@{packed}", url], capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(done.stdout) == {"accepted": 5000}
        assert len(running.journaled()) == 5000


@given(st.lists(st.binary(max_size=9000), min_size=1, max_size=5), st.sampled_from(["gzip", "zstd"]), st.data())
def test_whatever_is_cut_or_flipped_nothing_else_than_the_body_comes_out(
    parts: list[bytes], encoding: str, data: st.DataObject
) -> None:
    pack = gzip.compress if encoding == "gzip" else zstandard.ZstdCompressor(write_checksum=True).compress
    plain, packed = b"".join(parts), bytearray(b"".join(map(pack, parts)))
    codec = codec_of([encoding])
    assert unpacked(codec, bytes(packed), len(plain)) == plain
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    try:
        found = unpacked(codec, bytes(packed), len(plain))
    except EncodingRefused:
        return
    assert found == plain


class _Counting:
    """`zlib.decompressobj`, with the bytes that were given to it and that it gave back."""

    moved_bytes = 0

    def __init__(self, window: int) -> None:
        self._own = zlib_decompressobj(window)

    def decompress(self, piece: bytes, most: int) -> bytes:
        found = self._own.decompress(piece, most)
        _Counting.moved_bytes += len(piece) + len(self._own.unused_data) + len(self._own.unconsumed_tail)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


zlib_decompressobj = zlib.decompressobj


def test_very_many_tiny_members_are_not_copied_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: the rest of the body was copied behind each member, so that a body of 1 MiB cost as many bytes as 27 GB."""
    monkeypatch.setattr(compression.zlib, "decompressobj", _Counting)
    member = gzip.compress(b"")
    body = member * ((1 << 20) // len(member))
    assert unpacked(Codec.GZIP, body, 1) == b""
    assert _Counting.moved_bytes < 500 * len(body)
