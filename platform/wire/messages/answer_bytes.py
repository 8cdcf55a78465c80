"""A response's body together with the error codes in it, so that the sender can count them. Pure."""

from collections.abc import Sequence


class AnswerBytes(bytes):
    """The bytes, and `errors`: every error code in them but 0, once for each place."""

    errors: tuple[int, ...]

    @classmethod
    def holding(cls, body: bytes, errors: Sequence[int]) -> bytes:
        """Return `body` with its errors; `body` itself when there are none."""
        if not errors:
            return body
        answer = cls(body)
        answer.errors = tuple(errors)
        return answer
