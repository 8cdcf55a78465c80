"""Errors of the command line itself: a command that was asked for something that cannot be."""

from ..errors import HeadraceError


class AskedWrongly(HeadraceError):
    """The words of the command are at fault, not the world: exit code 2."""
