"""What the pages ask: the clusters, the registry, the audit, files of this machine. A bounded number of answers is
remembered for seconds.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from ..audit.client import ServiceUnreachable
from ..client.connection.cluster import Cluster
from ..client.errors import BrokerUnreachable, ClientError
from ..errors import HeadraceError
from ..reader.decoding.event_decoder import EventDecoder
from ..runtime.clock import Clock
from ..runtime.layout import Layout
from ..runtime.status import read_status
from ..schema_registry.client import RegistryClient, RegistryError, RegistryUnavailable
from .errors import BadRequest, NotHere

T = TypeVar("T")

ASK_MS = 5_000
"""How long a page waits for one answer of another process."""
MOST_REMEMBERED = 256
STALE_MS = 15_000
"""Older answers are not shown any more."""
MOST_ASKING = 4
"""Questions that are asked anew in the background at once."""


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
        self._asking: set[str] = set()
        self._remembered: OrderedDict[str, tuple[int, Any]] = OrderedDict()

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

    def remembered(self, key: str, most_age_ms: int, ask: Callable[[], T]) -> T:
        """Return the answer to `ask`. `key` names the question.

        An answer older than `most_age_ms` is returned once more, and asked anew in the background; one older than `STALE_MS` is
        asked anew at once.
        """
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            found = self._remembered.get(key)
            age_ms = None if found is None else now_ms - found[0]
            is_due = age_ms is not None and age_ms > most_age_ms and key not in self._asking
            if is_due and age_ms is not None and age_ms <= STALE_MS and len(self._asking) < MOST_ASKING:
                self._asking.add(key)
                threading.Thread(target=self._ask_anew, args=(key, ask), name="console-question", daemon=True).start()
        if found is not None and age_ms is not None and age_ms <= STALE_MS:
            value: T = found[1]
            return value
        return self._asked(key, ask)

    def _ask_anew(self, key: str, ask: Callable[[], Any]) -> None:
        try:
            self._asked(key, ask)
        except HeadraceError:
            pass  # when the answer is too old, a page asks by itself, and says why there is none
        finally:
            with self._lock:
                self._asking.discard(key)

    def _asked(self, key: str, ask: Callable[[], T]) -> T:
        value = ask()
        with self._lock:
            self._remembered[key] = (self.clock.monotonic_ms(), value)
            self._remembered.move_to_end(key)
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
        return value

    def status(self, name: str) -> dict[str, Any] | None:
        """Return what a process of this machine wrote last in its status file; None where there is none."""
        try:
            return read_status(self.layout.run / f"{name}.json")
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
