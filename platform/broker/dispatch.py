"""What a connection asks of whoever answers its requests (the router). Knows no API, reads no byte."""

from typing import Protocol

from .later import Chunks, Later
from .produce_front import Front
from .produce_run import Taken


class Dispatch(Protocol):
    """Answers frames."""

    def largest(self, api_key: int) -> int:
        """Return the longest frame taken for this API, its size field not counted."""
        ...

    def take_run(self, front: Front | None, buffer: memoryview, start: int, end: int, peer: str) -> Taken:
        """Answer the Produce requests in `buffer[start:end]` that can be taken together, perhaps none: whole response frames, in
        order. `front` is what the last call for the connection returned first. Raises as `answer`.
        """
        ...

    def answer(
        self, frame: memoryview, api_key: int, version: int, correlation_id: int, client_id_length: int, peer: str
    ) -> bytes | Chunks | Later | None:
        """Return the whole response frame, or None where none is sent. `frame` holds the size field too and is valid during
        the call only.

        A Later is completed with the whole response frame. Raises: WireError, FrameRefused; the connection is then closed.
        """
        ...
