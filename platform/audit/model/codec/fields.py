"""One JSON object, read field by field; what is wrong is raised as MalformedReport with the field's name."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import MalformedReport
from ..messages import MAX_STRETCHES, Stretch

INT64_MAX = (1 << 63) - 1
_MOST_COUNT = 1 << 40
"""The largest count believed: sums of them stay far inside 64 bits."""
_MAX_TEXT = 300
_LOSS = re.compile(r"[a-z][a-z_]{0,39}")
_DECIMAL = re.compile(r"-?[0-9]{1,19}")


class Fields:
    """One JSON object, read field by field; each reading method raises MalformedReport with the field's name."""

    def __init__(self, words: Any, where: str) -> None:
        if not isinstance(words, dict):
            raise MalformedReport(f"{where} is {type(words).__name__}, not a JSON object")
        self._words: dict[str, Any] = words
        self.where = where

    def __contains__(self, name: str) -> bool:
        return self._words.get(name) is not None

    def _wrong(self, name: str, expected: str) -> MalformedReport:
        found = repr(self._words[name])[:60] if name in self._words else "absent"
        return MalformedReport(f"{self.where}: {name} is {found}; expected {expected}")

    def integer(self, name: str, *, least: int = -INT64_MAX, most: int = INT64_MAX, default: int | None = None) -> int:
        value: Any = self._words.get(name, default)
        if not is_integer(value, least, most):
            raise self._wrong(name, f"a whole number from {least} to {most}")
        return int(value)

    def count(self, name: str, *, default: int | None = None) -> int:
        return self.integer(name, least=0, most=_MOST_COUNT, default=default)

    def optional_integer(self, name: str) -> int | None:
        return None if self._words.get(name) is None else self.integer(name)

    def optional_text(self, name: str) -> str:
        """Return the text; empty if there is none."""
        return "" if self._words.get(name) is None else self.text(name)

    def text(self, name: str) -> str:
        value = self._words.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT or not value.isprintable():
            raise self._wrong(name, f"printable text of 1 to {_MAX_TEXT} characters")
        return value

    def _list(self, name: str, most: int) -> list[Any]:
        value = self._words.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise self._wrong(name, f"a list of at most {most}")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        values = self._list(name, 10_000)
        if not all(is_integer(value, -1) for value in values):
            raise self._wrong(name, "a list of whole numbers")
        return tuple(values)

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name, 10_000)
        if not all(isinstance(value, str) and 0 < len(value) <= _MAX_TEXT and value.isprintable() for value in values):
            raise self._wrong(name, "a list of printable texts")
        return tuple(values)

    def objects(self, name: str, *, most: int) -> "list[Fields]":
        return [Fields(value, f"{self.where}.{name}[{index}]") for index, value in enumerate(self._list(name, most))]

    def lists(self, name: str, *, most: int) -> list[list[Any]]:
        """Return a list of lists, empty where the field is absent."""
        if name not in self._words:
            return []
        values = self._list(name, most)
        if not all(isinstance(value, list) for value in values):
            raise self._wrong(name, "a list of lists")
        return values

    def stretches(self, name: str) -> tuple[Stretch, ...]:
        """Return the records that a flat list names, none where the field is absent."""
        if name not in self._words:
            return ()
        return stretches(self._list(name, 3 * MAX_STRETCHES), f"{self.where}.{name}")

    def optional_pair(self, name: str) -> tuple[int, int] | None:
        """Return two whole numbers, the first not above the second; None where the field is absent."""
        if self._words.get(name) is None:
            return None
        match self._list(name, 2):
            case [first, second] if is_integer(first, -INT64_MAX) and is_integer(second, first):
                return first, second
        raise self._wrong(name, "two whole numbers in order")

    def mapping(self, name: str) -> Mapping[str, Any]:
        value = self._words.get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "a JSON object")
        return value

    def counts_by_name(self, name: str) -> dict[str, int]:
        counts = dict(self.mapping(name)) if name in self._words else {}
        if not all(_LOSS.fullmatch(key) and is_integer(count, 0, _MOST_COUNT) for key, count in counts.items()):
            raise self._wrong(name, "name of a loss (a-z_) → count, whole numbers from 0")
        return counts


def stretches(words: Sequence[Any], where: str) -> tuple[Stretch, ...]:
    if len(words) % 3 or len(words) > 3 * MAX_STRETCHES or not all(is_integer(word, -INT64_MAX) for word in words):
        raise MalformedReport(f"{where}: expected at most {MAX_STRETCHES} times gap, count and CRC, whole numbers")
    found, end = [], 0
    for at in range(0, len(words), 3):
        gap, count, crc = words[at : at + 3]
        first = end + gap
        end = first + count
        if first < 0 or not 0 < count <= _MOST_COUNT or end > INT64_MAX or not -1 <= crc < 1 << 32:
            raise MalformedReport(f"{where}: records {first} to {end} with CRC {crc} cannot be")
        found.append(Stretch(first, count, None if crc < 0 else crc))
    return tuple(found)


def whole(text: str, where: str) -> int:
    number = int(text) if _DECIMAL.fullmatch(text) else None
    if number is None or abs(number) > INT64_MAX:
        raise MalformedReport(f"{where}: key {text[:40]!r} is not a whole number of 64 bits")
    return number


def is_integer(value: Any, least: int, most: int = INT64_MAX) -> bool:
    # bool is an int to Python, not to a reader of counts
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
