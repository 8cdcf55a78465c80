"""The users as this broker knows them, read from ZooKeeper again after each change. Lives on the loop thread."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ...coordination.errors import UnreadableNode
from ...runtime.logs import get_logger
from ..errors import Overloaded
from ..event_loop.worker import Worker
from . import scram_credential
from .scram_credential import BadCredential, ScramCredential

log = get_logger(__name__)

MOST_USERS = 100_000
READ_AGAIN_MS = 1_000

Config = Mapping[str, str]
Credentials = Mapping[str, ScramCredential]
"""By mechanism."""
Done = Callable[[Exception | None], None]


class Registry(Protocol):
    """Where users are kept (`coordination.users`)."""

    def secret(self) -> bytes: ...

    def list(self) -> Sequence[str]: ...

    def read_each(self, users: Sequence[str]) -> Mapping[str, Config | UnreadableNode]: ...

    def change(self, user: str, change: Callable[[Config], Config]) -> None: ...


class TooManyUsers(Exception):
    """There are as many users as a broker keeps."""


class Users:
    """Finds credentials; changes them. `load` comes first; `secret` is known after it."""

    def __init__(self, registry: Registry, worker: Worker, call_later: Callable[[int, Callable[[], None]], None]) -> None:
        """`call_later` calls a function on the loop after so many milliseconds."""
        self._registry = registry
        self._worker = worker
        self._call_later = call_later
        self._users: dict[str, Credentials] = {}
        self._secret = b""
        self._typical: tuple[int, int] | None = None

    def load(self) -> None:
        """Read all users, before the loop runs. Raises: CoordinationError."""
        self._secret = self._registry.secret()
        self._put(self._registry.read_each(self._registry.list()))

    @property
    def all(self) -> Mapping[str, Credentials]:
        """Every user that has a credential."""
        return self._users

    def of(self, user: str) -> Credentials:
        """Return the user's credentials, empty when there is no such user."""
        return self._users.get(user, {})

    def credential(self, mechanism: str, user: str) -> ScramCredential:
        """Return the user's credential. For a user that has none, return one that no password fits."""
        found = self.of(user).get(mechanism)
        if found is not None:
            return found
        if self._typical is None:
            self._typical = scram_credential.typical(one for each in self._users.values() for one in each.values())
        return scram_credential.imagined(self._secret, mechanism, user, self._typical)

    def refresh(self, user: str | None = None) -> None:
        """Read this user again, or the list and those that are new. If that fails it is tried again."""
        known = set(self._users)

        def read() -> tuple[Sequence[str] | None, Mapping[str, Config | UnreadableNode]]:
            if user is not None:
                return None, self._registry.read_each([user])
            present = self._registry.list()
            return present, self._registry.read_each([one for one in present if one not in known])

        def have(found: tuple[Sequence[str] | None, Mapping[str, Config | UnreadableNode]]) -> None:
            present, configs = found
            gone = set(self._users) - set(present) if present is not None else {user} - set(configs)
            for one in gone:
                self._users.pop(one or "", None)
            self._put(configs)

        def failed(error: Exception) -> None:
            log.warning("users_not_read", user=user, why=str(error))
            self._call_later(READ_AGAIN_MS, lambda: self.refresh(user))

        if not self._worker.submit(read, have, failed):
            failed(Overloaded())

    def change(self, user: str, change: Callable[[Config], Config], done: Done) -> None:
        """Change a user's settings in ZooKeeper. `done` is called on the loop: with None when this broker uses the new ones, or
        with the error.
        """
        if user not in self._users and len(self._users) >= MOST_USERS:
            done(TooManyUsers(f"there are {len(self._users)} users already, the most that brokers keep"))
            return

        def make() -> Mapping[str, Config | UnreadableNode]:
            self._registry.change(user, change)
            return self._registry.read_each([user])

        def have(configs: Mapping[str, Config | UnreadableNode]) -> None:
            if user not in configs:
                self._users.pop(user, None)
            self._put(configs)
            done(None)

        if not self._worker.submit(make, have, done):
            done(Overloaded())

    def _put(self, configs: Mapping[str, Config | UnreadableNode]) -> None:
        self._typical = None
        for user, config in configs.items():
            credentials = _credentials(user, config)
            if credentials and (user in self._users or len(self._users) < MOST_USERS):
                self._users[user] = credentials
            else:
                self._users.pop(user, None)


def _credentials(user: str, config: Config | UnreadableNode) -> Credentials:
    if isinstance(config, UnreadableNode):
        log.warning("user_not_read", user=user, why="its node in ZooKeeper cannot be read")
        return {}
    found = {}
    for mechanism in scram_credential.HASHES:
        if (text := config.get(mechanism)) is not None:
            try:
                found[mechanism] = ScramCredential.of_text(mechanism, text)
            except BadCredential as error:
                log.warning("credential_not_read", user=user, mechanism=mechanism, why=str(error))
    return found
