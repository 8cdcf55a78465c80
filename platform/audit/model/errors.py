"""What can be wrong with the audit's own data."""

from ...errors import HeadraceError


class AuditError(HeadraceError):
    """Something in the audit failed; never a reason to call a window complete."""


class MalformedReport(AuditError):
    """A message on the audit topic is not a report. It is counted and skipped; the message names the field and the fault."""
