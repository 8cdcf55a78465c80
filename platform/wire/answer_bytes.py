"""An answer's body that remembers which error codes were written into it, so that whoever sends it can count them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any


class AnswerBytes(bytes):
    """The bytes, and `errors`: every error code in them but 0, each time it stands there."""

    errors: tuple[int, ...]

    @classmethod
    def of(cls, body: bytes, message: Any) -> bytes:
        """Return `body`, encoded from `message` (a mapping, see `control.make`): as it is where it holds no error."""
        errors: list[int] = []
        _collect(message, errors)
        return cls.holding(body, errors)

    @classmethod
    def holding(cls, body: bytes, errors: Sequence[int]) -> bytes:
        """Return `body` with the errors that are in it, as it is where there are none."""
        if not errors:
            return body
        answer = cls(body)
        answer.errors = tuple(errors)
        return answer


def _collect(value: Any, errors: list[int]) -> None:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name == "error_code":
                if inner:
                    errors.append(int(inner))
            elif isinstance(inner, list | tuple | Mapping):
                _collect(inner, errors)
    elif isinstance(value, list | tuple):
        for inner in value:
            _collect(inner, errors)
