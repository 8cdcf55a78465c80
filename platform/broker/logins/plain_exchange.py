"""PLAIN (RFC 4616): the password itself, compared with the credentials for SCRAM. A worker does it: it takes milliseconds."""

from .exchange import Accepted, Refused, Step, Work
from .scram_credential import HASHES
from .users import Users

LONGEST_MESSAGE = 4_096


class PlainExchange:
    """One login."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.user = ""

    def take(self, message: bytes) -> Step | Work:
        words = message.split(b"\0")
        if len(words) != 3 or len(message) > LONGEST_MESSAGE:
            return Refused(why="the message is not authzid NUL user NUL password")
        try:
            acts_as, user, password = (one.decode() for one in words)
        except UnicodeDecodeError:
            return Refused(why="the message is not UTF-8")
        self.user = user
        if not user or not password:
            return Refused(why="the user or the password is empty", user=user)
        if acts_as not in ("", user):
            return Refused(why="the client wants to act as another user", user=user)
        # The weaker one is quicker. A user without any is compared with one that no password fits.
        mechanism = next((one for one in HASHES if one in self._users.of(user)), next(iter(HASHES)))
        credential = self._users.credential(mechanism, user)

        def compare() -> Step:
            if credential.fits(mechanism, password):
                return Accepted(user=user)
            return Refused(why="no such user, or another password", user=user)

        return compare
