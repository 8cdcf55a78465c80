"""A sink that posts batches to an HTTP server: JSON arrays, or lines of JSON.

`Idempotency-Key` is `<topic>-<partition>-<first offset>-<last offset>` of the batch, and each record carries its `id`: a server
that remembers either takes no record twice. 2xx: taken. 400, 413 and 422 are the records' own fault: the batch is halved until
the one is alone, and that goes to quarantine. Everything else is tried again.
"""

import http.client
import json
import ssl
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...client.fetch.fetched import TopicPartition
from ...reader.processor import ProcessorAway, RefusedRecord
from ...reader.record import EventRecord
from ...runtime.http_call import HttpAddress
from .records import words_of
from .sink import SinkRefused

THEIR_FAULT = (400, 413, 422)
MOST_ANSWER_BYTES = 65_536
_SHOWN = 300


class HttpPosts:
    """A `Processor`."""

    def __init__(
        self,
        url: str,
        *,
        lines: bool = False,
        most_records: int = 500,
        most_bytes: int = 1 << 20,
        timeout_ms: int = 10_000,
        token_file: Path | None = None,
        ca_file: Path | None = None,
    ) -> None:
        """`lines`: NDJSON instead of an array. `most_…`: of one request. Raises SinkRefused."""
        try:
            self._address = HttpAddress(url)
        except ValueError as error:
            raise SinkRefused(str(error)) from None
        self._url = url
        self._lines = lines
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._timeout_ms = timeout_ms
        self._token_file = token_file
        try:
            self._tls = ssl.create_default_context(cafile=ca_file) if self._address.is_tls else None
        except OSError as error:
            raise SinkRefused(f"{ca_file} cannot be used: {error}") from error
        self._connection: http.client.HTTPConnection | None = None
        self._held: dict[TopicPartition, list[EventRecord]] = {}
        self._refused: list[RefusedRecord] = []
        """Of batches before one that failed: told with the next flush."""
        self._limits: dict[TopicPartition, int] = {}
        """Records of the next batch, smaller after a refusal."""

    def begin(self, starts: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.end(list(starts))
        return {}

    def take(self, record: EventRecord) -> None:
        self._held.setdefault(record.of, []).append(record)

    @property
    def is_full(self) -> bool:
        return False

    def flush(self, positions: Mapping[TopicPartition, int]) -> list[RefusedRecord]:
        has_progressed = False
        for name in [name for name in self._held if name in positions]:
            held = self._held[name]
            while held:
                # What was posted is held no more, so that a failure of the next one does not repeat it.
                try:
                    done = self._post(name, held)
                except ProcessorAway as error:
                    raise ProcessorAway(str(error), has_progressed=has_progressed) from error
                del held[:done]
                has_progressed = has_progressed or bool(done)
            del self._held[name]
        refused, self._refused = self._refused, []
        return refused

    def end(self, partitions: Collection[TopicPartition]) -> None:
        for name in partitions:
            self._held.pop(name, None)
            self._limits.pop(name, None)
        self._refused = [one for one in self._refused if one.record.of not in partitions]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _first_batch(self, held: Sequence[EventRecord]) -> int:
        size = count = 0
        for one in held[: self._most_records]:
            size += one.size_bytes
            if count and size > self._most_bytes:
                break
            count += 1
        return count

    def _post(self, name: TopicPartition, held: Sequence[EventRecord]) -> int:
        """Post the first of what is held; return how many are done with. After a refusal the next batch is half as large."""
        records = held[: min(self._first_batch(held), self._limits.get(name, self._most_records))]
        status, words = self._ask(records)
        if 200 <= status < 300 or (status in THEIR_FAULT and len(records) == 1):
            if status in THEIR_FAULT:
                self._refused.append(RefusedRecord(records[0], f"{self._url} answered {status}: {words}"))
            self._limits[name] = min(self._most_records, 2 * self._limits.get(name, self._most_records))
            return len(records)
        if status not in THEIR_FAULT:
            raise ProcessorAway(f"{self._url} answered {status}: {words}")
        # Kept over failures: a server that fails now and then must not make the search for the one begin again.
        self._limits[name] = len(records) // 2
        return 0

    def _ask(self, records: Sequence[EventRecord]) -> tuple[int, str]:
        words = [words_of(record) for record in records]
        first, last = records[0], records[-1]
        headers = {
            "Content-Type": "application/x-ndjson" if self._lines else "application/json",
            "Idempotency-Key": f"{first.id}-{last.message.offset}",
            **self._token(),
        }
        try:
            if self._connection is None:
                self._connection = self._address.connection(within_ms=self._timeout_ms, tls=self._tls)
            self._connection.request("POST", self._address.target, _body(words, lines=self._lines), headers)
            answer = self._connection.getresponse()
            content = answer.read(MOST_ANSWER_BYTES)
            if answer.will_close or not answer.isclosed():
                self.close()
            return answer.status, content[:_SHOWN].decode("utf-8", "backslashreplace").strip()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise ProcessorAway(f"{self._url} does not answer: {error or type(error).__name__}") from error

    def _token(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text().split("\n", 1)[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ProcessorAway(f"the token file {self._token_file} cannot be read: {error}") from error
        return {"Authorization": f"Bearer {token}"}


def _body(words: Sequence[dict[str, Any]], *, lines: bool) -> bytes:
    if not lines:
        return json.dumps(words, ensure_ascii=False).encode()
    return b"".join(json.dumps(one, ensure_ascii=False).encode() + b"\n" for one in words)
