"""What a parser of lines is. Pure."""

from typing import Any, NamedTuple, Protocol

from ...errors import HeadraceError


class UnparsableLine(HeadraceError):
    """The line is not what its parser expects; the message says in what. The line belongs in quarantine."""

    code = "unparsable_line"


class ParsedLine(NamedTuple):
    """What a line says."""

    event: dict[str, Any]
    """The event's fields without event time and server."""
    time_ms: int | None
    """When it happened, ms since the epoch; None: the line does not say."""


class LineParser(Protocol):
    """Takes lines apart, one by one, without memory of earlier ones."""

    @property
    def schema(self) -> dict[str, Any]:
        """The Avro schema of the events."""

    def parse(self, line: bytes) -> ParsedLine:
        """Return what a line says (without its line end). Raises `UnparsableLine`."""

    def time_of(self, line: bytes) -> int | None:
        """Return the time (ms) of a line that does not parse; None where it is not to be found. Never raises."""
