"""What a page says instead of its data."""

from ..errors import HeadraceError


class BadRequest(HeadraceError):
    """A parameter of the address is wrong; the message says which and how."""


class NotHere(HeadraceError):
    """What the page needs cannot be reached. `remedy` is the command that starts it; empty: there is none to give."""

    def __init__(self, what: str, why: str, remedy: str) -> None:
        self.what, self.why, self.remedy = what, why, remedy
        super().__init__(f"{what}: {why}")
