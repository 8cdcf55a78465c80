"""The one way in which a request ends its connection on purpose."""


class FrameRefused(Exception):
    """A frame that has no answer in the protocol; the connection is closed, and the message goes to the log."""
