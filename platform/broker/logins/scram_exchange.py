"""SCRAM-SHA-256 and SCRAM-SHA-512, the server's side, by scramp. The iterations are the client's work, not the server's.

Source: RFC 5802; Kafka speaks it without channel binding (KIP-84)."""

from scramp import ScramException, ScramMechanism

from .exchange import Accepted, Challenge, Refused, Step
from .users import Users

LONGEST_MESSAGE = 4_096


class ScramExchange:
    """One login."""

    def __init__(self, mechanism: str, users: Users) -> None:
        self._mechanism = mechanism
        self._users = users
        self._server = ScramMechanism(mechanism).make_server(self._credential)
        self._said_first = False
        self.user = ""

    def take(self, message: bytes) -> Step:
        if len(message) > LONGEST_MESSAGE:
            return Refused(why=f"a message of {len(message)} bytes", user=self.user)
        try:
            text = message.decode()
            if not self._said_first:
                self._said_first = True
                self._server.set_client_first(text)
                return Challenge(self._server.get_server_first().encode())
            self._server.set_client_final(text)
            return Accepted(message=self._server.get_server_final().encode(), user=self.user)
        except (ScramException, UnicodeError) as error:
            return Refused(why=str(error)[:200], user=self.user)

    def _credential(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self.user = user
        found = self._users.credential(self._mechanism, user)
        return found.salt, found.stored_key, found.server_key, found.iterations
