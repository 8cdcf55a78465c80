"""What the pages ask: the clusters, the registry, the audit, files of this machine. A bounded number of answers is
remembered for seconds.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ..audit.client import ServiceUnreachable
from ..client.connection.cluster import Cluster
from ..client.errors import BrokerUnreachable, ClientError
from ..errors import HeadraceError
from ..reader.decoding.event_decoder import EventDecoder
from ..runtime.clock import Clock
from ..runtime.layout import Layout
from ..runtime.logs import get_logger
from ..runtime.status import read_status
from ..schema_registry.client import RegistryClient, RegistryError, RegistryUnavailable
from .errors import BadRequest, NotHere

log = get_logger(__name__)

T = TypeVar("T")

ASK_MS = 5_000
"""How long a page waits for one answer of another process."""
AGENT_FILE = "agent/status.json"
"""Below the home."""
MOST_REMEMBERED = 256
STALE_MS = 15_000
"""Older answers are not shown any more."""
SOON_MS = 100
"""How long a page waits for an answer that it can be shown without."""
SOON_STALE_MS = 120_000
"""Such an answer is shown, with its age, until it is so old."""
MOST_ASKING = 8
"""Questions that are asked anew in the background at once."""


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """An answer, and how old it is."""

    value: T
    age_ms: int
    is_asking: bool
    """A newer one is on its way."""


def oldest(*answers: Known[Any]) -> Known[bool | None]:
    """Return the age of the oldest of the answers, and whether any is asked anew; None where one is not there yet."""
    return Known(
        True if all(one.value is not None for one in answers) else None,
        max(one.age_ms for one in answers),
        is_asking=any(one.is_asking for one in answers),
    )


class _Entry(NamedTuple):
    at_ms: int
    value: Any
    fault: HeadraceError | None


class Answers:
    """Any thread may ask. `close` ends the connections."""

    def __init__(self, layout: Layout, clock: Clock, *, is_read_only: bool) -> None:
        self.layout = layout
        self.clock = clock
        self.is_read_only = is_read_only
        self._clusters = {
            "live": Cluster(layout.live_bootstrap, client_id="headrace-console", request_timeout_ms=ASK_MS),
            "offline": Cluster(layout.offline_bootstrap, client_id="headrace-console", request_timeout_ms=ASK_MS),
        }
        self.registry = RegistryClient(layout.registry_url, cache_folder=layout.home / "schemas")
        self.decoder = EventDecoder(self.registry)
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Event] = {}
        """Question that is asked in the background → set when it is answered."""
        self._remembered: OrderedDict[str, _Entry] = OrderedDict()

    @property
    def audit_url(self) -> str:
        return self.layout.audit_url

    @property
    def live(self) -> Cluster:
        return self._clusters["live"]

    def cluster(self, name: str) -> Cluster:
        """Return the live or the offline cluster. Raises BadRequest."""
        if name not in self._clusters:
            raise BadRequest(f"cluster={name[:40]!r} is neither live nor offline")
        return self._clusters[name]

    def remembered(self, key: str, most_age_ms: int, ask: Callable[[], T]) -> Known[T]:
        """Return the answer to `ask`. `key` names the question.

        An answer older than `most_age_ms` is returned once more, and asked anew in the background; one older than `STALE_MS` is
        asked anew at once.
        """
        found, _ = self._look(key, most_age_ms, STALE_MS, ask, is_first=False)
        return Known(self._asked(key, ask).value, 0, is_asking=False) if found is None else found

    def soon(self, key: str, most_age_ms: int, ask: Callable[[], T]) -> Known[T | None]:
        """Return the same of a question that takes long: None if it is not answered within `SOON_MS`. It is asked in the
        background; the page shows the last answer with its age meanwhile.
        """
        found, answered = self._look(key, most_age_ms, SOON_STALE_MS, ask, is_first=True)
        if found is not None:
            return found
        if answered is None:  # too many are asked already
            return Known(None, 0, is_asking=True)
        answered.wait(SOON_MS / 1000)
        with self._lock:
            entry = self._remembered.get(key)
            if entry is None or key in self._asking:
                return Known(None, 0, is_asking=True)
        if entry.fault is not None:
            raise entry.fault.with_traceback(None)
        return Known(entry.value, 0, is_asking=False)

    def _look(
        self, key: str, most_age_ms: int, stale_ms: int, ask: Callable[[], T], *, is_first: bool
    ) -> tuple[Known[T] | None, threading.Event | None]:
        """Return what is remembered and not too old; and what is set when an answer that is asked for in the background is there.

        `is_first`: ask in the background even where nothing is remembered. Raises the fault of the last try, if it is fresh.
        """
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            entry = self._remembered.get(key)
            age_ms = None if entry is None else now_ms - entry.at_ms
            if entry is not None and entry.fault is not None and age_ms is not None:
                if age_ms <= most_age_ms:
                    raise entry.fault.with_traceback(None)
                entry = age_ms = None
            is_shown = age_ms is not None and age_ms <= stale_ms
            is_due = (is_shown or is_first) and (age_ms is None or age_ms > most_age_ms)
            if is_due and key not in self._asking and len(self._asking) < MOST_ASKING:
                self._asking[key] = threading.Event()
                threading.Thread(target=self._ask_anew, args=(key, ask, stale_ms), name="console-question", daemon=True).start()
            asking = self._asking.get(key)
            if entry is None or age_ms is None or not is_shown:
                return None, asking
            return Known(entry.value, age_ms, is_asking=asking is not None), asking

    def _ask_anew(self, key: str, ask: Callable[[], Any], stale_ms: int) -> None:
        try:
            self._asked(key, ask)
        except HeadraceError as error:
            self._failed(key, error, stale_ms)
        except Exception as error:
            log.exception("question_failed", question=key[:200], reason=str(error))
            self._failed(key, NotHere("A part of this page failed", "the console's log says why", ""), stale_ms)
        finally:
            with self._lock:
                self._asking.pop(key).set()

    def _failed(self, key: str, error: HeadraceError, stale_ms: int) -> None:
        """Remember why there is no answer, unless there is one that can still be shown."""
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            entry = self._remembered.get(key)
            if entry is None or entry.fault is not None or now_ms - entry.at_ms > stale_ms:
                self._put(key, _Entry(now_ms, None, error))

    def _asked(self, key: str, ask: Callable[[], T]) -> _Entry:
        entry = _Entry(self.clock.monotonic_ms(), ask(), None)
        with self._lock:
            self._put(key, entry)
        return entry

    def _put(self, key: str, entry: _Entry) -> None:
        self._remembered[key] = entry
        self._remembered.move_to_end(key)
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)

    def status(self, name: str) -> dict[str, Any] | None:
        """Return what a process of this machine wrote last in its status file; None where there is none."""
        return self._written(f"run/{name}.json")

    def agent(self) -> dict[str, Any] | None:
        """Return what this home's agent wrote last of itself; None where there is none. `run/agent.json` has its state alone."""
        return self._written(AGENT_FILE)

    def _written(self, file: str) -> dict[str, Any] | None:
        try:
            return read_status(self.layout.home / file)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        for one in self._clusters.values():
            one.close()


def not_here(layout: Layout, error: HeadraceError) -> NotHere:
    """Return what could not be reached, why, and the command that starts it."""
    match error:
        case NotHere():
            return error
        case ServiceUnreachable():
            return NotHere(f"The audit service at {layout.audit_url} does not answer", str(error), "headrace start audit")
        case RegistryUnavailable():
            return NotHere(f"The schema registry at {layout.registry_url} does not answer", str(error), "headrace start registry")
        case BrokerUnreachable():
            is_offline = layout.offline_bootstrap in str(error)
            name = "broker-offline" if is_offline else "broker-live"
            return NotHere(f"{name} does not answer", str(error), f"headrace start {name}")
        case RegistryError():
            return NotHere("The schema registry refused the question", str(error), "")
        case ClientError():
            return NotHere("The cluster refused the question", str(error), "")
        case _:
            return NotHere("This cannot be shown now", str(error), "headrace status")


def part(layout: Layout, ask: Callable[[], T]) -> tuple[T | None, NotHere | None]:
    """Return the answer, or why there is none: the rest of a page is shown all the same."""
    try:
        return ask(), None
    except BadRequest:
        raise
    except HeadraceError as error:
        return None, not_here(layout, error)
