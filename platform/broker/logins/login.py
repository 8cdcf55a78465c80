"""The state of one connection's login: which requests it may send, and who it is. Lives on the loop thread.

    WANTED --SaslHandshake--> UNDER_WAY --SaslAuthenticate, once or more--> DONE
                                  └────────────── refused ────────────────> FAILED

In WANTED a client may ask for ApiVersions, too. A request that the state does not allow closes the connection, as in Kafka.
In DONE with an end of the session (KIP-368), SaslHandshake begins the next login, as the same principal and with the same
mechanism; once the session has ended, every other request closes the connection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ...runtime.failed_logins import Failures
from ...runtime.rate_limited_log import RateLimitedLog
from ..errors import FrameRefused
from ..event_loop.worker import Worker
from ..network.peer import Peer
from ..network.principal import USER, Principal
from .exchange import Accepted, Challenge, Exchange, Refused, Step

HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36
LARGEST_FRAME = 512 * 1024
"""Before a login, as in Apache Kafka. No token is larger."""
NOT_TOLD = "Authentication failed: the broker does not accept this login"
"""What a client is told, whatever the reason: it must not learn which users there are."""
LONGEST_NAME = 100
LINGER_MS = 1_000
"""How long a client may stay after its failed login was answered."""

Answer = Callable[["Answered"], None]


class State(Enum):
    """Where a login is."""

    WANTED = auto()
    UNDER_WAY = auto()
    DONE = auto()
    FAILED = auto()


_ALLOWED = {State.WANTED: (API_VERSIONS, HANDSHAKE), State.UNDER_WAY: (AUTHENTICATE,), State.FAILED: ()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The response to SaslAuthenticate."""

    message: bytes = b""
    refusal: str | None = None
    lifetime_ms: int = 0
    """Of the session. 0: it has no end."""


NoteFailure = Callable[[str, str, str, str], None]
"""Takes note of a failed login: the principal that the client claims to be, its host, the mechanism, the reason."""


class Logins:
    """What all logins of a broker share."""

    def __init__(
        self,
        *,
        exchange: Callable[[str], Exchange],
        worker: Worker,
        call_at: Callable[[int, Callable[[], None]], None],
        monotonic_ms: Callable[[], int],
        now_ms: Callable[[], int],
        log: RateLimitedLog,
        max_reauth_ms: int,
        failed_delay_ms: int,
        within_ms: int,
        note_failure: NoteFailure | None = None,
    ) -> None:
        """`exchange` begins one with a mechanism. `within_ms`: how long a login may take."""
        self.note_failure = note_failure
        self.exchange = exchange
        self.worker = worker
        self.call_at = call_at
        self.monotonic_ms = monotonic_ms
        self.now_ms = now_ms
        self.log = log
        self.max_reauth_ms = max_reauth_ms
        self.failed_delay_ms = failed_delay_ms
        self.within_ms = within_ms
        self.failures = Failures()


class Login:
    """The guard of one connection (`Peer.guard`)."""

    __slots__ = ("_ends_ms", "_exchange", "_mechanism", "_mechanisms", "_peer", "_shared", "_state", "deadline_ms")

    def __init__(self, shared: Logins, mechanisms: Sequence[str], peer: Peer) -> None:
        self._shared = shared
        self._mechanisms = mechanisms
        self._peer = peer
        self._state = State.WANTED
        self._exchange: Exchange | None = None
        self._mechanism = ""
        self._ends_ms: int | None = None
        """Monotonic: when the session ends. None: it has not begun."""
        self.deadline_ms: int | None = shared.monotonic_ms() + shared.within_ms

    @property
    def largest_frame(self) -> int | None:
        return None if self._state is State.DONE else LARGEST_FRAME

    @property
    def mechanisms(self) -> Sequence[str]:
        """What its listener takes."""
        return self._mechanisms

    def check(self, api_key: int) -> None:
        """Raises: FrameRefused."""
        state = self._state
        if state is State.DONE:
            if (
                self._ends_ms is not None
                and self._shared.monotonic_ms() > self._ends_ms
                and api_key not in (HANDSHAKE, API_VERSIONS)
            ):
                raise FrameRefused(
                    "the session has ended (connections.max.reauth.ms) and the client did not log in again", "session_ended"
                )
            if api_key != AUTHENTICATE:
                return
        elif api_key in _ALLOWED[state]:
            return
        raise FrameRefused(_why(state, api_key, self._peer.listener), "not_logged_in")

    def begin(self, mechanism: str) -> bool:
        """Begin with a mechanism (SaslHandshake). Return False when its listener does not take it."""
        if mechanism not in self._mechanisms or (self._ends_ms is not None and mechanism != self._mechanism):
            self._fail(Refused(why=f"it wants the mechanism {mechanism[:LONGEST_NAME]!r}, {self._peer.listener} takes others"))
            return False
        self._state, self._mechanism = State.UNDER_WAY, mechanism
        self._exchange = self._shared.exchange(mechanism)
        if self.deadline_ms is None:
            self.deadline_ms = self._shared.monotonic_ms() + self._shared.within_ms
        return True

    def take(self, message: bytes, answer: Answer) -> None:
        """Take the client's next message (SaslAuthenticate), and call `answer` now or later. Raises: FrameRefused when too many
        logins wait for the worker.
        """
        exchange, shared = self._exchange, self._shared
        assert exchange is not None, "check allows SaslAuthenticate while a login is under way"
        step = exchange.take(message)
        if exchange.user and shared.failures.too_many(self._peer.host, exchange.user, shared.monotonic_ms()):
            self._have(Refused(why="too many failed logins as this user from there", user=exchange.user), answer)
        elif not callable(step):
            self._have(step, answer)
        elif not shared.worker.submit(
            step,
            lambda found: self._have(found, answer),
            lambda error: self._have(Refused(why=f"{type(error).__name__}: {error}", user=exchange.user), answer),
        ):
            raise FrameRefused("too many logins are under way: the client tries again", "overloaded")

    def _have(self, step: Step, answer: Answer) -> None:
        match step:
            case Challenge(message):
                answer(Answered(message=message))
            case Accepted():
                self._accept(step, answer)
            case Refused():
                shared = self._shared
                shared.failures.add(self._peer.host, step.user, shared.monotonic_ms())
                self._fail(step)
                shared.call_at(shared.monotonic_ms() + shared.failed_delay_ms, lambda: answer(Answered(refusal=NOT_TOLD)))

    def _accept(self, accepted: Accepted, answer: Answer) -> None:
        shared, principal = self._shared, Principal(USER, accepted.user)
        if self._ends_ms is not None and principal != self._peer.principal:
            self._have(Refused(why=f"it was {self._peer.principal} and logs in again as another", user=accepted.user), answer)
            return
        lifetime_ms = shared.max_reauth_ms
        if lifetime_ms and accepted.expires_ms is not None:
            lifetime_ms = max(1, min(lifetime_ms, accepted.expires_ms - shared.now_ms()))
        self._state, self._exchange, self.deadline_ms = State.DONE, None, None
        self._peer.principal = principal
        if lifetime_ms:
            self._ends_ms = shared.monotonic_ms() + lifetime_ms
        else:
            self._peer.guard = None  # a request costs no call more
        answer(Answered(message=accepted.message, lifetime_ms=lifetime_ms))

    def _fail(self, refused: Refused) -> None:
        """From now on every request closes the connection, and soon the server does."""
        self._state, self._exchange = State.FAILED, None
        self.deadline_ms = self._shared.monotonic_ms() + self._shared.failed_delay_ms + LINGER_MS
        self._shared.log.warning(
            "login_failed",
            peer=self._peer.address,
            listener=self._peer.listener,
            mechanism=self._mechanism,
            user=refused.user[:LONGEST_NAME],
            why=refused.why,
        )
        if self._shared.note_failure is not None:
            principal = str(Principal(USER, refused.user[:LONGEST_NAME]))
            self._shared.note_failure(principal, self._peer.host, self._mechanism, refused.why)


def _why(state: State, api_key: int, listener: str) -> str:
    if state is State.FAILED:
        return f"a request (API key {api_key}) after a failed login"
    if state is State.UNDER_WAY:
        return f"a request (API key {api_key}) during the login"
    if state is State.DONE:
        return "SaslAuthenticate without SaslHandshake"
    return (
        f"a request (API key {api_key}) before the login that listener {listener} wants: set security.protocol=SASL_SSL "
        "(or SASL_PLAINTEXT) and sasl.mechanism in the client"
    )
