"""What every destination raises. A destination is a `Processor` of the reader that holds records until it is flushed."""

from ...errors import HeadraceError


class SinkRefused(HeadraceError):
    """The destination cannot be used with these settings: its table has other columns, say."""
