"""The error of the command line itself: the user asked for something that cannot be done."""

from ..errors import HeadraceError


class UsageError(HeadraceError):
    """The command's arguments are wrong, not the environment: exit code 2."""
