"""The quotas as this broker knows them, read from ZooKeeper again after each change, and what each client owes. Lives on the loop
thread. While ZooKeeper is away the last known ones stay in force."""

from collections.abc import Callable, Mapping
from typing import Protocol

from ...coordination.errors import InvalidName
from ...coordination.paths import user_step
from ...coordination.quotas import Changed, Config
from ...runtime.logs import get_logger
from ..errors import Overloaded
from ..event_loop.worker import Worker
from .limits import DEFAULT, FETCH, PRODUCE, REQUESTS, Entity, limit_of, read
from .meter import Meter

log = get_logger(__name__)

MOST_ENTITIES = 10_000
"""That have quotas."""
MOST_CLIENTS = 10_000
"""Pairs of user and client id that are remembered, and meters. Beyond it all are looked up again, and meters that owe nothing are
forgotten, then the oldest."""
READ_AGAIN_MS = 1_000
REQUESTS_RATE = 10.0
"""One percent of a loop's second, in ms."""
NO_STEP = "."
"""For a name that no quota can have: too long, or empty. No step is written so."""

Done = Callable[[Exception | None], None]


class Registry(Protocol):
    """Where quotas are kept (`coordination.quotas`)."""

    def read(self, known: int | None = None) -> Changed: ...

    def change(self, entity: Entity, change: Callable[[Config], Config]) -> None: ...


class TooManyQuotas(Exception):
    """There are as many entities with quotas as a broker keeps."""


class Allowance:
    """The meters of one client; None where it has no limit."""

    __slots__ = ("fetch", "produce", "requests")

    def __init__(self, produce: Meter | None, fetch: Meter | None, requests: Meter | None) -> None:
        self.produce = produce
        self.fetch = fetch
        self.requests = requests
        """Its unit is a ms of the loop's time."""


class Quotas:
    """Finds the limits of a client; changes them. `load` comes first."""

    def __init__(self, registry: Registry, worker: Worker, call_later: Callable[[int, Callable[[], None]], None]) -> None:
        """`call_later` calls a function on the loop after so many milliseconds."""
        self._registry = registry
        self._worker = worker
        self._call_later = call_later
        self._number: int | None = None
        self._reads_again = False
        self._clients: dict[tuple[str, str], Allowance | None] = {}
        self._meters: dict[tuple[str, Entity], Meter] = {}
        self.limits: dict[Entity, dict[str, float]] = {}
        self.is_on = False
        """Whether there is any quota. Hot: read once a request or run."""

    def load(self) -> None:
        """Read all quotas, before the loop runs. Raises: CoordinationError."""
        self._take(self._registry.read())

    def of(self, user: str, client_id: str) -> Allowance | None:
        """Return what the client may use; None where it has no quota. Hot where there are quotas."""
        try:
            return self._clients[user, client_id]
        except KeyError:
            pass
        if len(self._clients) >= MOST_CLIENTS:
            self._clients.clear()
        steps = _step("user", user), _step("client id", client_id)
        produce, fetch, requests = (self._meter(key, *steps) for key in (PRODUCE, FETCH, REQUESTS))
        found = None if produce is fetch is requests is None else Allowance(produce, fetch, requests)
        self._clients[user, client_id] = found
        return found

    def refresh(self) -> None:
        """Read what has changed. If that fails it is tried again."""

        def failed(error: Exception) -> None:
            log.warning("quotas_not_read", why=str(error))
            if not self._reads_again:
                self._reads_again = True
                self._call_later(READ_AGAIN_MS, again)

        def again() -> None:
            self._reads_again = False
            self.refresh()

        known = self._number
        if not self._worker.submit(lambda: self._registry.read(known), self._take, failed):
            failed(Overloaded())

    def change(self, entity: Entity, change: Callable[[Config], Config], done: Done) -> None:
        """Change an entity's settings in ZooKeeper. `done` is called on the loop: with None when this broker uses the new ones,
        or with the error.
        """
        if entity not in self.limits and len(self.limits) >= MOST_ENTITIES:
            done(TooManyQuotas(f"{len(self.limits)} users and clients have quotas, the most that brokers keep: use defaults"))
            return
        known = self._number

        def make() -> Changed:
            self._registry.change(entity, change)
            return self._registry.read(known)

        def have(changed: Changed) -> None:
            self._take(changed)
            done(None)

        if not self._worker.submit(make, have, done):
            done(Overloaded())

    def _take(self, changed: Changed) -> None:
        number, configs, is_all = changed
        if not is_all and self._number is not None and number < self._number:
            return  # a later reading was faster
        before = {} if is_all else self.limits
        found = {entity: read(config) for entity, config in configs.items()}
        self.limits = {entity: its for entity, its in {**before, **found}.items() if its}
        self._number = number
        self._clients.clear()
        self.is_on = bool(self.limits)
        if not self.is_on:
            self._meters.clear()

    def _meter(self, key: str, user: str, client: str) -> Meter | None:
        found = limit_of(self.limits, key, user, client)
        if found is None:
            return None
        limit, shared_by = found
        rate = limit * REQUESTS_RATE if key == REQUESTS else limit
        meter = self._meters.get((key, shared_by))
        if meter is None:
            if len(self._meters) >= MOST_CLIENTS:
                del self._meters[next(iter(self._meters))]
            meter = self._meters[key, shared_by] = Meter(rate)
        meter.rate = rate
        return meter


def _step(kind: str, name: str) -> str:
    try:
        return user_step(name, kind)
    except InvalidName:
        return NO_STEP


def entity_of(user: str | None, client: str | None, *, has_user: bool, has_client: bool) -> Entity:
    """Return the entity of a request: None is the default of users, or of clients. Raises InvalidName."""
    return (
        None if not has_user else DEFAULT if user is None else user_step(user),
        None if not has_client else DEFAULT if client is None else user_step(client, "client id"),
    )


def config_after(present: Config, changes: Mapping[str, str | None]) -> Config:
    """Return the settings with the changes; None removes one."""
    left = {name: value for name, value in present.items() if name not in changes}
    return left | {name: value for name, value in changes.items() if value is not None}
