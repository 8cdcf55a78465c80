"""An answer's body that remembers which error codes were written into it, so that whoever sends it can count them. Pure."""

from collections.abc import Sequence


class AnswerBytes(bytes):
    """The bytes, and `errors`: every error code in them but 0, each time it stands there."""

    errors: tuple[int, ...]

    @classmethod
    def holding(cls, body: bytes, errors: Sequence[int]) -> bytes:
        """Return `body` with the errors that are in it, as it is where there are none."""
        if not errors:
            return body
        answer = cls(body)
        answer.errors = tuple(errors)
        return answer
