"""The root of every error that Headrace raises on purpose. Each room derives its own from it."""

from typing import ClassVar


class HeadraceError(Exception):
    """Something named went wrong; the message says what was tried, on what, why it failed and what to do next.

    `retriable` belongs to the class: true where the same call may succeed later with nothing changed by the caller.
    """

    retriable: ClassVar[bool] = False
