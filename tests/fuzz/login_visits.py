"""Random visits to a broker with logins: requests before, during and after a login, one by one or several in one piece.

A visit knows from its own moves, not from the broker, who it may be: only alice's password is ever given in full. It raises
`AssertionError` when the broker answers what it must not answer, lets in whom it must not, or shows what is planted.
"""

import random
import struct
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, auto

from headrace.broker.handlers.api_table import BETWEEN_BROKERS, TABLE
from headrace.client.security import mechanisms
from headrace.client.security.secret_value import Secret
from headrace.wire.errors import ErrorCode
from headrace.wire.messages import control
from tests.support.raw_kafka import Closed, RawClient, batch, fetch_body, frame, produce_body

from .login_messages import altered

HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*SCRAM, "PLAIN")
STRANGE = ("OAUTHBEARER", "GSSAPI", "", "plain", "SCRAM-SHA-1", "x" * 300)
ALICE, PASSWORD = "alice", "secret"
OTHERS = ("bob", "nobody", "Alice", "alice ", "alice\u200b")
"""Bob exists, and nobody has his password."""
PLANTED = ("planted-topic", "planted-group", "planted-user")
KEYS = (*TABLE, *BETWEEN_BROKERS)
STRANGE_KEYS = (4, 5, 6, 7, 24, 27, 65, 68, 80, 255, 999, 20_010, 32_767, -1, -32_768)
MOST_MOVES = 8
LARGEST_FRAME = 512 * 1024
DEADLINE_MS = 60_000


class State(Enum):
    """What the visit has reached, by its own account."""

    OUTSIDE = auto()
    UNDER_WAY = auto()
    INSIDE = auto()
    REFUSED = auto()
    CLOSED = auto()


class Visit:
    """One connection. `take_place` makes its moves."""

    def __init__(self, port: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._client = RawClient(port, timeout_ms=DEADLINE_MS)
        self._number = 0
        self.state = State.OUTSIDE
        self.moves: list[str] = []
        """What was done, for the message of a failure."""

    def take_place(self) -> State:
        """Return the state at the end, in which the connection is closed."""
        with self._client:
            for _ in range(self._chance.randint(1, MOST_MOVES)):
                if self.state is State.CLOSED:
                    break
                self._move()
        return self.state

    def _move(self) -> None:
        chance = self._chance
        if self.state is State.INSIDE and chance.random() < 0.3:
            return self._last_words()
        match chance.randrange(10):
            case 0 | 1 | 2:
                is_inside = self.state is State.INSIDE
                key, version, body = self._any_request()
                self._request(key, version, body)
                if is_inside and key == HANDSHAKE:
                    self.state = State.CLOSED  # it may have begun, or ended, a renewal of its session
            case 3 | 4:
                self._begin(chance.choice(MECHANISMS if chance.random() < 0.8 else STRANGE), chance.choice((0, 1, 1, 1)))
            case 5 | 6:
                self._authenticate(chance.choice((0, 1, 2)), self._any_message())
            case 7:
                self._log_in(chance.choice(MECHANISMS))
            case 8:
                self._in_one_piece()
            case _:
                self._claims_of_size()

    def _request(self, key: int, version: int, body: bytes) -> bytes | None:
        """Send a request, and return its response; None where the connection was closed."""
        self.moves.append(f"{self.state.name}: key {key} version {version}, {len(body)} bytes")
        self._number += 1
        self._send(frame(key, version, self._number, body))
        if self.state is State.INSIDE and key not in (HANDSHAKE, API_VERSIONS, AUTHENTICATE):
            self.state = State.CLOSED  # some wait for long: nothing is asked behind them
            return None
        answer = self._response(self._number)
        if answer is None:
            self.state = State.CLOSED
            return None
        allowed = {State.OUTSIDE: (HANDSHAKE, API_VERSIONS), State.UNDER_WAY: (AUTHENTICATE,), State.REFUSED: ()}
        assert key in allowed.get(self.state, (key,)), f"it was answered: {self.moves}"
        return answer

    def _send(self, data: bytes) -> None:
        with suppress(ConnectionError):  # the broker has closed the connection already, which the response will show
            self._client.socket.sendall(data)

    def _response(self, number: int) -> bytes | None:
        """Return the next response behind its correlation id; None at the end of the connection."""
        try:
            size = struct.unpack(">i", self._client._exactly(4))[0]
            whole = self._client._exactly(size)
        except Closed:
            return None
        assert struct.unpack_from(">i", whole)[0] == number, f"a response to another request: {self.moves}"
        if self.state is not State.INSIDE:
            assert not any(word.encode() in whole for word in PLANTED), f"a name is shown before a login: {self.moves}"
        return whole[4:]

    def _begin(self, mechanism: str, version: int) -> bool:
        answer = self._request(HANDSHAKE, version, control.encode_request(HANDSHAKE, version, {"mechanism": mechanism}))
        if answer is None:
            return False
        error = control.decode_response(HANDSHAKE, version, answer).error_code
        if self.state is State.OUTSIDE and version:
            assert (error == 0) == (mechanism in MECHANISMS), self.moves
            self.state = State.REFUSED if error else State.UNDER_WAY
        elif self.state is State.INSIDE and version:
            self.state = {0: State.UNDER_WAY, ErrorCode.UNSUPPORTED_SASL_MECHANISM: State.REFUSED}.get(error, State.INSIDE)
        return not error

    def _authenticate(self, version: int, message: bytes, *, is_right: bool = False) -> bytes | None:
        """Return the server's message; None after a refusal. `is_right`: the last message of a login as alice."""
        self.moves.append(f"message {message[:60]!r}")
        answer = self._request(AUTHENTICATE, version, control.encode_request(AUTHENTICATE, version, {"auth_bytes": message}))
        if answer is None:
            return None
        decoded = control.decode_response(AUTHENTICATE, version, answer[1:] if version == 2 else answer)
        if self.state is not State.UNDER_WAY:
            assert decoded.error_code or self.state is State.INSIDE, self.moves
            return None
        if decoded.error_code:
            assert not is_right, f"a login with the right password is refused: {self.moves}"
            assert not decoded.auth_bytes
            self.state = State.REFUSED
            return None
        said = bytes(decoded.auth_bytes)
        if is_right:
            self.state = State.INSIDE
        elif not said.startswith(b"r="):  # only SCRAM's first message is answered without a login
            assert _is_plain_of_alice(message), f"a login was taken: {self.moves}"
            self.state = State.INSIDE
        return said

    def _log_in(self, mechanism: str) -> None:
        """Log in as alice, with other requests between the messages now and then."""
        if self.state not in (State.OUTSIDE, State.INSIDE) or not self._begin(mechanism, 1):
            return
        if mechanism == "PLAIN":
            self._authenticate(1, f"\0{ALICE}\0{PASSWORD}".encode(), is_right=True)
            return
        steps = mechanisms.scram_login(mechanism, ALICE, Secret(PASSWORD))
        challenge = self._authenticate(2, next(steps))
        if challenge is None:
            return
        final = steps.send(challenge)
        match self._chance.randrange(4):
            case 0:
                self._request(*self._any_request())
            case 1:
                wrong = altered(self._chance, final)
                if wrong != final:
                    self._authenticate(2, wrong)
            case _:
                self._authenticate(2, final, is_right=True)

    def _in_one_piece(self) -> None:
        """Send a login that fails, and requests behind it, in one piece or in many: none of the requests is answered."""
        chance = self._chance
        if self.state is not State.OUTSIDE:
            return
        user = chance.choice(OTHERS)
        login = [
            (API_VERSIONS, 0, b""),
            (HANDSHAKE, 1, control.encode_request(HANDSHAKE, 1, {"mechanism": "PLAIN"})),
            (AUTHENTICATE, 1, control.encode_request(AUTHENTICATE, 1, {"auth_bytes": f"\0{user}\0guess".encode()})),
        ]
        kept = login[: chance.randint(1, 3)]
        behind = [self._any_request() for _ in range(chance.randint(1, 4))]
        if len(kept) < 3:
            behind = [(key, *rest) for key, *rest in behind if key not in (HANDSHAKE, API_VERSIONS, AUTHENTICATE)] or [
                (3, 4, b"")
            ]
        numbers = range(self._number + 1, self._number + 1 + len(kept) + len(behind))
        self._number = numbers[-1]
        sent = b"".join(frame(*one[:2], number, one[2]) for number, one in zip(numbers, [*kept, *behind], strict=True))
        self.moves.append(f"in one piece: {[one[:2] for one in (*kept, *behind)]}")
        for piece in _pieces(chance, sent):
            self._send(piece)
        for number in numbers[: len(kept)]:
            if self._response(number) is None:
                break
        else:
            assert self._response(-1) is None, self.moves
        self.state = State.CLOSED

    def _claims_of_size(self) -> None:
        """Begin a frame that is larger than any login needs, or smaller than a request: it closes the connection."""
        if self.state is State.INSIDE:
            return
        size = self._chance.choice((LARGEST_FRAME + 1, 100 << 20, 0x7FFFFFFF, -1, -0x80000000, 0, 7))
        self.moves.append(f"a frame of {size} bytes")
        self._send(struct.pack(">ihhih", size, self._chance.choice((18, 17, 36, 0)), 1, 1, -1) + bytes(20))
        assert self._response(-1) is None, self.moves
        self.state = State.CLOSED

    def _last_words(self) -> None:
        """A client that has logged in sees what is there."""
        body = control.encode_request(3, 4, {"topics": None, "allow_auto_topic_creation": False})
        self._number += 1
        self._send(frame(3, 4, self._number, body))
        answer = self._response(self._number)
        assert answer is not None, f"a client that has logged in is not served: {self.moves}"
        assert PLANTED[0] in [topic.name for topic in control.decode_response(3, 4, answer).topics]

    def _any_request(self) -> tuple[int, int, bytes]:
        chance = self._chance
        if chance.random() < 0.2:
            return chance.choice(GOOD)
        key = chance.choice(KEYS if chance.random() < 0.9 else STRANGE_KEYS)
        api = TABLE.get(key)
        version = chance.randint(api.lowest, api.highest) if api is not None and chance.random() < 0.9 else chance.randint(-1, 20)
        return key, version, chance.choice((b"", bytes(12), chance.randbytes(chance.randrange(60)), *PLANTED_BODIES))

    def _any_message(self) -> bytes:
        chance = self._chance
        user = chance.choice(OTHERS)
        known: Sequence[bytes] = (
            f"\0{user}\0{PASSWORD}x".encode(),
            f"{user}\0{ALICE}\0{PASSWORD}".encode(),
            f"\0{ALICE}\0".encode(),
            f"n,,n={user},r=abc".encode(),
            f"n,a={ALICE},n={user},r=abc".encode(),
            f"p=tls-exporter,,n={ALICE},r=abc".encode(),
            b"n,,\x01auth=Bearer e30.e30.\x01\x01",
            b"\x01",
            b"",
        )
        message = chance.choice(known)
        return altered(chance, message) if chance.random() < 0.5 else message


GOOD = (
    (0, 9, produce_body(PLANTED[0], batch(b"unwanted"))),
    (1, 12, fetch_body([(PLANTED[0], 0, 0)])),
    (3, 4, control.encode_request(3, 4, {"topics": None, "allow_auto_topic_creation": False})),
)
"""Requests that a client may send once it has logged in. One of Produce is on the fast path."""
PLANTED_BODIES = tuple(struct.pack(">h", len(word)) + word.encode() + bytes(8) for word in PLANTED)


def _is_plain_of_alice(message: bytes) -> bool:
    words = message.split(b"\0")
    return len(words) == 3 and words[0] in (b"", ALICE.encode()) and words[1:] == [ALICE.encode(), PASSWORD.encode()]


def _pieces(chance: random.Random, data: bytes) -> list[bytes]:
    """Return the data whole, or cut at up to three places."""
    cuts = sorted(chance.randrange(len(data)) for _ in range(chance.choice((0, 0, 1, 3))))
    return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if begin < end]
