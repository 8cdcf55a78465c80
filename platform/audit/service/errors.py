"""What can stop the audit service."""

from ..model.errors import AuditError


class SettingsError(AuditError):
    """The settings cannot be used; the message names every fault found."""


class LedgerUnreadable(AuditError):
    """The mirror's ledger holds what this program does not read: what is behind the mirror cannot be compared."""

    def __init__(self, mirror: str, where: str, reason: str) -> None:
        self.mirror = mirror
        super().__init__(
            f"the ledger of the mirror {mirror!r} on {where} cannot be read: {reason}; "
            "run an audit service of at least the mirror's version"
        )


class StoreError(AuditError):
    """The books' file cannot be used or written."""
