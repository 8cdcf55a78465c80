"""The ids of the sources' schemas, fetched on a thread of its own: a registry that does not answer delays only these sources."""

import queue
import threading
from collections.abc import Callable

from ...errors import HeadraceError
from ...runtime.logs import get_logger
from ...schema_registry.client import RegistryClient

log = get_logger(__name__)

RETRY_MS = 1_000
MOST_SCHEMAS = 1_000
"""With more schemas in use at once, all are forgotten and asked for again (the registry's client has them on disk)."""


class SchemaIds:
    """`get` never waits. A refusal is final until the agent starts again."""

    def __init__(self, registry: RegistryClient, wake: Callable[[], None]) -> None:
        self._registry = registry
        self._wake = wake
        self._known: dict[tuple[str, str], int | str] = {}
        self._asked: set[tuple[str, str]] = set()
        self._questions: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-agent-schemas", daemon=True)
        self.last_error: HeadraceError | None = None
        """Why the registry gave no answer; None once it gave one."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._questions.put(None)
        self._thread.join(10)

    def get(self, topic: str, schema: str) -> int | str | None:
        """Return the schema's id, or why the registry refuses it; None: it is not known yet."""
        found = self._known.get((topic, schema))
        if found is None and (topic, schema) not in self._asked:
            self._asked.add((topic, schema))
            self._questions.put((topic, schema))
        return found

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None and not self._stopping.is_set():
            topic, schema = asked
            answer: int | str
            try:
                answer = self._registry.register(f"{topic}-value", schema)
            except HeadraceError as error:
                if error.retriable:
                    if self.last_error is None:
                        log.warning("registry_waits", topic=topic, reason=str(error))
                    self.last_error = error
                    self._stopping.wait(RETRY_MS / 1000)
                    self._questions.put(asked)
                    continue
                log.error("schema_refused", topic=topic, reason=str(error), then="its records go to quarantine")
                answer = str(error)
            self.last_error = None
            if len(self._known) >= MOST_SCHEMAS:
                self._known.clear()
            self._known[asked] = answer
            self._asked.discard(asked)
            self._wake()
