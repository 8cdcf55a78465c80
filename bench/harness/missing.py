"""How a part that this machine does not have says so."""


class Missing(Exception):
    """Not installed here. The text says what, and how it is got; the result lists it as skipped, by name."""
