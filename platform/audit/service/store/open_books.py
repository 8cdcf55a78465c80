"""The books in memory and their store, behind one lock: of all topics only those used last are in memory.

Memory and store change together: the books write to the journal inside one transaction, and when that fails what is in memory is
dropped and loaded again. Nothing is counted twice and nothing is skipped, whenever the process is killed.
"""

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeVar

from ....runtime.clock import Clock
from ....runtime.layout import is_internal, is_scratch
from ...model.books import TopicBook
from ...model.messages import ProducerReport
from ...model.tier_reports import TierReports
from ...model.windows import News
from ..errors import StoreError
from ..hearing.steady_clock import steady
from ..request_time import CURRENT, acquire
from ..settings import AuditSettings
from .audit_log import AuditLog
from .database import Database
from .journal import BooksJournal
from .latencies import Latencies
from .loading import load_runs, load_topic, see_window_ms
from .named_tiers import NamedTiers, warn_of_contradictions
from .tables import Reading
from .verdicts import Verdicts

T = TypeVar("T")

MEMORY_BYTES = 64 << 20
"""What the books in memory may take, by a rough estimate; those of the topic at hand may take more."""
LATEST_REPORTS = 1_000
"""Reports of producers that are kept in memory until it is known that no topic was created again before them."""
STORE_ID = "store_id"
NOTED_MS = "noted_ms"
"""The fact when the store was last changed: no moment that it holds is later."""
GIVE_WAY_MS = 20
_ALL = (-(1 << 63), (1 << 63) - 1)
"""Every window of a topic, in the table `to_judge`."""


class _Door:
    """The lock of the books; who enters finds them loaded, or gets the StoreError."""

    def __init__(self, see_loaded: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._see_loaded = see_loaded
        self._counting = threading.Lock()
        self._asking = 0

    def __enter__(self) -> None:
        if CURRENT.get() is None:
            self._lock.acquire()
        else:
            self._count(1)
            try:
                acquire(self._lock)
            finally:
                self._count(-1)
        try:
            self._see_loaded()
        except BaseException:
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _count(self, by: int) -> None:
        with self._counting:
            self._asking += by

    def give_way(self) -> None:
        """Pause while requests wait, at most `GIVE_WAY_MS`: who takes the lock again at once would be before them each time."""
        for _ in range(GIVE_WAY_MS):
            if not self._asking:
                return
            time.sleep(0.001)


class OpenBooks:
    """The tier reports and their store. `log_books.py` and `ledger.py` change them, and keep what they alone need."""

    def __init__(self, database: Database, settings: AuditSettings, clock: Clock) -> None:
        self.settings = settings
        self.database = database
        self.journal = BooksJournal(database, self._weigh)
        self.notes = AuditLog(database)
        self.verdicts = Verdicts(database)
        self.latencies = Latencies()
        self.named_tiers = NamedTiers(database)
        self.clock = steady(clock)
        self._noted_ms = 0
        """When the store was last changed."""
        self.lock = _Door(self._see_loaded)
        self._is_loaded = True
        """False where memory and store may differ: the next who enters loads again."""
        self.reports = TierReports(settings.window_ms, self._load)
        self._weights: OrderedDict[str, int] = OrderedDict()
        """Topics whose books are in memory, the one used last at the end → about how many bytes they take."""
        self.mentioned: set[str] = set()
        """Every topic that anybody has mentioned."""
        self.latest_reports: deque[tuple[int, ProducerReport]] = deque(maxlen=LATEST_REPORTS)
        self._is_changing = False
        self._loaders: list[Callable[[], None]] = []
        self.failure: str | None = None
        """Why the store could not be written at the last try; None when it could."""

    def when_loaded(self, load: Callable[[], None]) -> None:
        """Have `load` called whenever the store was loaded again, for what is kept in memory elsewhere."""
        self._loaders.append(load)

    def open(self) -> None:
        """Load what is always in memory. Raises StoreError."""
        with self.lock:
            see_window_ms(self.database, self.settings.window_ms)
            self._load_common()
            for topic in self.named_tiers.topics():
                warn_of_contradictions(self.settings, self.named_tiers.of(topic))

    def _see_loaded(self) -> None:
        if not self._is_changing and (self.database.is_lost or not self._is_loaded):
            try:
                self._load_common()
            except StoreError as error:
                self.failure = str(error)
                raise

    def _load_common(self) -> None:
        self._is_loaded = False
        self.verdicts.forget_sinks()
        self.database.reopen_if_lost()
        self.named_tiers.forget()
        self._noted_ms = int(self.database.fact(NOTED_MS) or 0)
        self.clock.not_before(self._noted_ms)
        self.reports = TierReports(self.settings.window_ms, self._load)
        self._weights.clear()
        for run in load_runs(self.database):
            self.reports.restore_run(run)
        self.mentioned = {topic for run in self.reports.runs.values() for topic in run.topics}
        for table in ("logs", "topics", "tally"):
            self.mentioned |= {topic for (topic,) in self.database.rows(f"SELECT DISTINCT topic FROM {table}")}
        for topic, from_ms, to_ms in self.database.rows(
            "SELECT topic, from_ms, to_ms FROM to_judge ORDER BY topic, from_ms, to_ms"
        ):
            news = self.reports.news.setdefault(topic, News())
            if (from_ms, to_ms) == _ALL:
                news.add_span(None)
            elif to_ms == from_ms:
                news.windows.add(from_ms)
            elif to_ms < from_ms:
                news.of_sinks.add(from_ms)
            else:
                news.add_span((from_ms, to_ms))
        for load in self._loaders:
            load()
        self._is_loaded = True

    # -- the whole store -----------------------------------------------------------------------------------------------

    def snapshot(self) -> AbstractContextManager[Reading]:
        """Give the store as of one moment, all of it of the same position of every log. Raises StoreError."""
        return self.database.snapshot()

    def store_id(self) -> str:
        """Return by what this store is told from those of other audits of the cluster."""
        with self.lock:
            known = self.database.fact(STORE_ID)
            if known is None:
                known = secrets.token_hex(8)
                with self.changing():
                    self.database.put_fact(STORE_ID, known)
            return known

    def end_period(self) -> int:
        """Begin the next period of changes; return the one that ended. A snapshot that is taken now holds all of it."""
        with self.lock, self.database.transaction():
            return self.database.changes.end_period()

    def made_checkpoint(self, checkpoint: str, period: int) -> None:
        """Note that a checkpoint holds all that changed in this period and before."""
        with self.lock, self.database.transaction():
            self.database.changes.made(checkpoint, period)

    def replace_store(self, fill: Callable[[Database], None]) -> None:
        """Replace everything in the store in one transaction, and load it. Raises what `fill` raises; then nothing changed."""
        with self.lock:
            try:
                with self.database.transaction():
                    fill(self.database)
                    # What it is filled from may be another audit's, which continues under its own id.
                    self.database.put_fact(STORE_ID, secrets.token_hex(8))
            finally:
                self._is_loaded = False
            self._see_loaded()

    # -- what is in memory ---------------------------------------------------------------------------------------------

    def _load(self, topic: str) -> TopicBook:
        self.weigh_anew(topic)
        return load_topic(self.database, topic, self._weigh)

    def weigh_anew(self, topic: str) -> None:
        """Know that nothing of the topic is in memory any more."""
        self._weights[topic] = 0

    def _weigh(self, topic: str, size_bytes: int) -> None:
        self._weights[topic] = self._weights.get(topic, 0) + size_bytes

    def book(self, topic: str) -> TopicBook:
        """Return the topic's book; the caller holds the lock."""
        book = self.reports.book(topic)
        if topic in self._weights:
            self._weights.move_to_end(topic)
        return book

    def make_room(self) -> None:
        """Let go the books that were used longest ago."""
        while self._weights and (
            len(self._weights) > self.settings.topics_in_memory or sum(self._weights.values()) > MEMORY_BYTES
        ):
            topic, _ = self._weights.popitem(last=False)
            self.reports.evict(topic)

    @contextmanager
    def changing(self) -> Iterator[int]:
        """Change books and store together; gives the time of the change. A change inside a change is part of it."""
        with self.lock:
            if self._is_changing:
                yield self.clock.now_ms()
                return
            self._is_changing = True
            try:
                with self.database.transaction():
                    self._note_time()
                    yield self.clock.now_ms()
                    self._note_news()
            except BaseException as error:
                self.failure = str(error) if isinstance(error, StoreError) else self.failure
                with suppress(StoreError):  # then it is tried again when somebody enters
                    self._load_common()
                raise
            finally:
                self._is_changing = False
            self.failure = None
            self.make_room()

    def _note_time(self) -> None:
        """Note when the store was last changed: a restart continues there, whatever the host's clock says then."""
        now_ms = self.clock.now_ms()
        if now_ms != self._noted_ms:
            self._noted_ms = now_ms
            self.database.put_fact(NOTED_MS, now_ms)

    def _note_news(self) -> None:
        rows = []
        for topic in self.reports.touched:
            self.mentioned.add(topic)
            news = self.reports.news.get(topic, News())
            rows += [(topic, start, start) for start in news.windows]
            rows += [(topic, start, start - 1) for start in news.of_sinks]
            rows += [(topic, *(_ALL if span is None else span)) for span in news.spans]
        self.database.put("to_judge", *rows)
        self.reports.touched.clear()

    def kept(self, topic: str, windows: Mapping[int, T]) -> dict[int, T]:
        """Return the windows without those that were added to their days: nothing is compared there any more."""
        book = self.book(topic)
        return {
            start: one for start, one in windows.items() if start in book.windows or not self.verdicts.is_in_a_day(topic, start)
        }

    # -- questions -----------------------------------------------------------------------------------------------------

    def give_way(self) -> None:
        """Let requests that wait for the books have them; for those who take them again and again."""
        self.lock.give_way()

    def ask(self, question: Callable[[AuditLog], T]) -> T:
        """Return the answer of the audit log."""
        with self.lock:
            return question(self.notes)

    def verdict(self, question: Callable[[Verdicts], T]) -> T:
        """Return the answer of the stored verdicts."""
        with self.lock:
            return question(self.verdicts)

    def look(self, topic: str, question: Callable[[TopicBook], T]) -> T | None:
        """Return the answer of the topic's book, None for a topic that nobody has mentioned. The question changes nothing."""
        with self.lock:
            if topic not in self.mentioned:
                return None
            try:
                return question(self.book(topic))
            finally:
                self.make_room()

    def note(self, write: Callable[[AuditLog], object]) -> None:
        """Write to the audit log in a transaction of its own."""
        with self.lock, self.database.transaction():
            write(self.notes)

    def topics(self) -> list[str]:
        """Return every topic that has been mentioned, sorted; without those of drills."""
        with self.lock:
            return sorted(topic for topic in self.mentioned if is_audited(topic) and not is_scratch(topic))


def is_audited(topic: str) -> bool:
    """Return whether the books are kept for `topic`: not for the platform's own."""
    return not is_internal(topic)
