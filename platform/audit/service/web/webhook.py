"""Posts each change of a verdict to an address, as JSON: {"changes": [...], "dropped": n}. What is to be told of sinks' rows
stands beside it, in a list of its own, "sinks", where there is any: who reads only "changes" sees what he saw before.

The judge only puts changes into a bounded queue. A thread posts them in order, as many at once as wait, and tries again until
they are accepted (any 2xx). Where the queue is full its oldest change is dropped, and the next post says how many were.
"""

import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from ....runtime.backoff import Backoff
from ....runtime.http_call import HttpAddress, HttpAnswerTooLong, NoHttpAnswer
from ....runtime.lifecycle import StopSignal
from ....runtime.logs import get_logger

log = get_logger(__name__)

MOST_WAITING = 10_000
MOST_AT_ONCE = 500
POST_MS = 10_000
BACKOFF = Backoff(first_ms=500, longest_ms=60_000)


class Webhook:
    """The queue and the thread that empties it."""

    def __init__(self, url: str, *, backoff: Backoff = BACKOFF) -> None:
        self.url = url
        self.failure: str | None = None
        """Why the latest post was not accepted; None when it was."""
        self._backoff = backoff
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._dropped = 0
        self._stop = StopSignal()
        self._thread = threading.Thread(target=self._run, name="audit-webhook", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what was not accepted by now is not sent any more."""
        self._stop.set()
        self._some.set()
        self._thread.join(timeout=POST_MS / 1000 + 1)

    def tell(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Put changes into the queue and return at once."""
        with self._lock:
            for change in changes:
                self._waiting.append(change)
                if len(self._waiting) > MOST_WAITING:
                    self._waiting.popleft()
                    self._dropped += 1
        self._some.set()

    def _run(self) -> None:
        attempt = 0
        while not self._stop.is_set():
            self._some.wait()
            with self._lock:
                changes = [self._waiting.popleft() for _ in range(min(MOST_AT_ONCE, len(self._waiting)))]
                dropped, self._dropped = self._dropped, 0
                if not self._waiting:
                    self._some.clear()
            if not changes:
                continue
            self.failure = self._post(changes, dropped)
            if self.failure is None:
                attempt = 0
                continue
            if attempt == 0:
                log.warning("webhook_refused", url=self.url, reason=self.failure, waiting=len(changes))
            self._put_back(changes, dropped)
            self._stop.wait(self._backoff.wait_ms(attempt))
            attempt += 1

    def _put_back(self, changes: list[Mapping[str, Any]], dropped: int) -> None:
        with self._lock:
            room = max(0, MOST_WAITING - len(self._waiting))
            kept = changes[len(changes) - room :] if room < len(changes) else changes
            self._waiting.extendleft(reversed(kept))
            self._dropped += dropped + len(changes) - len(kept)
        self._some.set()

    def _post(self, changes: list[Mapping[str, Any]], dropped: int) -> str | None:
        """Return None when the changes were accepted, else why not."""
        words: dict[str, Any] = {"changes": [one for one in changes if "sink" not in one], "dropped": dropped}
        of_sinks = [one for one in changes if "sink" in one]
        body = json.dumps(words | ({"sinks": of_sinks} if of_sinks else {})).encode()
        try:
            answer = HttpAddress(self.url).call("POST", None, body, {"Content-Type": "application/json"}, within_ms=POST_MS)
        except HttpAnswerTooLong:
            return None  # a status came, and nobody reads what else it says
        except (NoHttpAnswer, ValueError) as error:
            return f"{self.url} does not answer: {error}"
        return None if answer.is_success else f"{self.url} answers {answer.status}"
