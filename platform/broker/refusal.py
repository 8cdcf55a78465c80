"""The one way in which a request ends its connection on purpose."""


class FrameRefused(Exception):
    """A frame that has no answer in the protocol; the connection is closed, and the message goes to the log.

    `reason` is what it is counted under: one of few words, and never the peer's own.
    """

    def __init__(self, why: str, reason: str = "refused") -> None:
        self.reason = reason
        super().__init__(why)
