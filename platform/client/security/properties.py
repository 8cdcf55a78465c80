"""Java's properties files, as `java.util.Properties` reads them, but in UTF-8 and without repeated names. Pure.

Source: the class comment of `java.util.Properties.load`: comments, `=`, `:` or white space between name and value, a backslash at
a line's end, `\\t \\n \\r \\f \\uXXXX` and a backslash before any other character.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

_BLANKS = " \t\f"
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NATURAL_LINES = re.compile("\r\n|\r|\n")


class BadProperties(ValueError):
    """A line cannot be read. Its text is not repeated: it may hold a secret."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        super().__init__(f"line {line}: {reason}")


def parse(text: str) -> Mapping[str, tuple[str, int]]:
    """Return each name's value and the number of the line where it stands. Raises `BadProperties`."""
    found: dict[str, tuple[str, int]] = {}
    for number, line in _logical_lines(text):
        name, value = _split(line, number)
        if name in found and found[name][0] != value:
            raise BadProperties(number, f"{name} has another value in line {found[name][1]}: keep one of them")
        found.setdefault(name, (value, number))
    return MappingProxyType(found)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with the number of its first natural line; comments and blank lines are left out."""
    lines = iter(enumerate(_NATURAL_LINES.split(text), 1))
    for number, natural in lines:
        line = natural.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _goes_on(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, line


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str, number: int) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANKS:
        at += 2 if line[at] == "\\" else 1
    name, rest = line[:at], line[at:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":") and rest:
        rest = rest[1:].lstrip(_BLANKS)
    return _unescape(name, number), _unescape(rest, number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text[at] != "\\":
            parts.append(text[at])
            at += 1
            continue
        letter = text[at + 1 : at + 2]
        if letter == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise BadProperties(number, "\\u wants four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            at += 6
        else:
            parts.append(_ESCAPED.get(letter, letter))
            at += 2
    # Java writes a character beyond U+FFFF as two escapes.
    try:
        return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise BadProperties(number, "\\u escapes half of a character: both surrogates are wanted") from None
