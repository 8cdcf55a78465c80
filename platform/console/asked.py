"""The parameters of an address, checked. Pure."""

import re
from collections.abc import Mapping

from .errors import BadRequest

INSTANTS = range(-(1 << 62), 1 << 62)
MOST_CHARACTERS = 2_000
_NUMBER = re.compile(r"-?[0-9]{1,19}")


class Asked:
    """The parameters of one request."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._parameters = parameters

    def text(self, name: str, default: str = "") -> str:
        """Return a parameter, without spaces around it. Raises BadRequest if it is longer than any that is of use."""
        value = self._parameters.get(name, default).strip() or default
        if len(value) > MOST_CHARACTERS:
            raise BadRequest(f"{name} has {len(value)} characters: at most {MOST_CHARACTERS} are read")
        return value

    def needed(self, name: str) -> str:
        """Return a parameter that must be there. Raises BadRequest."""
        value = self.text(name)
        if not value:
            raise BadRequest(f"the address lacks `{name}`: add {name}=… to it, or follow a link from one of the lists above")
        return value

    def whole(self, name: str, within: range = INSTANTS) -> int | None:
        """Return a whole number; None without one. Raises BadRequest."""
        value = self.text(name)
        if not value:
            return None
        number = int(value) if _NUMBER.fullmatch(value) else None
        if number is None or number not in within:
            raise BadRequest(f"{name}={value[:40]!r} is not a whole number from {within.start} to {within.stop - 1}")
        return number
