"""The SDK's logger beside the producers: one run for each round, with a window of its own that the run's end closes."""

import io
import threading
import time

from fastavro import parse_schema, schemaless_reader

from headrace.audit.model.windows import WINDOW_MS
from headrace.sdk import EventLogger, event_schema

LOGGED = "logged"
"""The topic."""
DAYS_AGO_MS = 7 * 86_400_000
"""So far back the first round's window lies: no two rounds of a run share one, and none is in the future."""
PACE_S = 0.005
CLOSE_MS = 120_000
_SCHEMA = event_schema("FaultsEvent", [{"name": "id", "type": "string"}])
_PARSED = parse_schema(_SCHEMA)
_FRAME_BYTES = 5
"""The magic byte and the schema's id."""


def id_of(value: bytes) -> str:
    """Return the id of a stored event, by a decoder of another project."""
    event = schemaless_reader(io.BytesIO(value[_FRAME_BYTES:]), _PARSED, None)
    return str(event["id"])  # type: ignore[index, call-overload]


def first_window_ms() -> int:
    """Return where the window of a run's first round begins."""
    return (time.time_ns() // 1_000_000 - DAYS_AGO_MS) // WINDOW_MS * WINDOW_MS


class Logging:
    """Logs an event every few milliseconds from `begin` to `end`."""

    def __init__(self, bootstrap: str, registry_url: str, *, number: int, window_start_ms: int) -> None:
        self.window_start_ms = window_start_ms
        self.taken: set[str] = set()
        """The ids for which `log` returned True."""
        self._number = number
        self._logger = EventLogger(
            LOGGED,
            _SCHEMA,
            application="faults",
            bootstrap=bootstrap,
            registry_url=registry_url,
            lateness_ms=None,
            only_between_ms=(window_start_ms, window_start_ms + WINDOW_MS),
            linger_ms=5,
            schema_cache=None,
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"logger {number}", daemon=True)

    def begin(self) -> "Logging":
        self._thread.start()
        return self

    def stop(self) -> None:
        """Log no more."""
        self._is_over.set()

    def end(self) -> list[str]:
        """Log no more and close the logger; return what it did not store or not say."""
        self.stop()
        self._thread.join(180)
        self._logger.close(CLOSE_MS)
        ledger, error = self._logger.ledger(), self._logger.close_error
        wrong = [f"logger of round {self._number}: {error}"] if error is not None else []
        if ledger.dropped or ledger.acknowledged != len(self.taken):
            wrong.append(f"logger of round {self._number}: took {len(self.taken)}, ended with {ledger}")
        return wrong

    def _run(self) -> None:
        count = 0
        while not self._is_over.wait(PACE_S):
            value = f"{self._number}.{count}"
            if self._logger.log({"id": value}, event_time_ms=self.window_start_ms + count % WINDOW_MS):
                self.taken.add(value)
            count += 1
