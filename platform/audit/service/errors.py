"""What can stop the audit service."""

from ..model.errors import AuditError


class SettingsError(AuditError):
    """The settings cannot be used; the message names every fault found."""


class StoreError(AuditError):
    """The books' file cannot be used or written."""
