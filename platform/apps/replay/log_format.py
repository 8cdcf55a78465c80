"""Checks whether a file is an access log, by its first lines and before anything is sent: each line of another format would
become a quarantine record. Some bad lines among good ones are accepted; those are quarantined.
"""

from dataclasses import dataclass
from pathlib import Path

from ...agent.parsers.access_log import parse_line, text_of
from ...agent.parsers.parser import UnparsableLine
from ...errors import HeadraceError
from .log_lines import LINE_LIMIT_BYTES, LogFile

LOOKED_AT = 100
"""Lines. A log that was cut or overwritten in places still has good lines among them."""
LEAST_GOOD = 0.5
SHOWN_CHARACTERS = 120

EXPECTED = (
    'the combined format: host ident user [time] "request" status size "referrer" "user agent", for example\n'
    '  192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET /index.html HTTP/1.1" 200 512 "-" "curl/8.0"'
)


class OtherFormat(HeadraceError):
    """Too few of the file's first lines are access-log lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How many of a file's first lines are access-log lines."""

    line_count: int
    good_count: int
    first_bad: str = ""
    """The first line that is not an access-log line, printable and cut."""
    why: str = ""

    @property
    def is_access_log(self) -> bool:
        """Return whether at least half of the lines are requests; True for a file without lines."""
        return self.good_count >= self.line_count * LEAST_GOOD


def sample(path: Path, lines: int = LOOKED_AT) -> Sample:
    """Count the access-log lines among the file's first lines. Raises `LogUnreadable`."""
    line_count = good_count = 0
    first_bad = why = ""
    with LogFile(path) as log:
        for line in log.lines():
            line_count += 1
            try:
                if line.is_too_long:
                    raise UnparsableLine(f"the line is longer than {LINE_LIMIT_BYTES} bytes")
                parse_line(line.content)
                good_count += 1
            except UnparsableLine as error:
                if not why:
                    first_bad, why = shown(line.content), f"line {line.number}: {error}"
            if line_count >= lines:
                break
    return Sample(line_count=line_count, good_count=good_count, first_bad=first_bad, why=why)


def check_format(path: Path) -> None:
    """Return if the file looks like an access log. Raises `OtherFormat`, `LogUnreadable`."""
    found = sample(path)
    if found.is_access_log:
        return
    looked_at = (
        "its only line is none" if found.line_count == 1 else f"{found.good_count} of its first {found.line_count} lines are"
    )
    raise OtherFormat(
        f"{path} is not an access log: {looked_at}. Nothing was sent.\n"
        f"  the first other line: {found.first_bad}\n"
        f"  what is wrong with it: {found.why}\n"
        f"expected: {EXPECTED}"
    )


def shown(content: bytes) -> str:
    """Return the beginning of a line as printable text."""
    text = text_of(content[: SHOWN_CHARACTERS * 4])
    printable = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return repr("") if not printable else printable if len(printable) <= SHOWN_CHARACTERS else f"{printable[:SHOWN_CHARACTERS]} …"
