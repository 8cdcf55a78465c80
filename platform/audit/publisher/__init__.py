"""How a tier reports to the audit what it counted: `ProducerReporter` for producers, `RangeReporter` for tiers that read a
log.
"""

from .audit_topic import see_to_audit_topic
from .producer_reporter import ProducerReporter
from .range_reporter import PositionBook, RangeReporter, UnreportedBacklog
from .range_split import FoundWindow, range_reports
from .retirement import retire
from .sending import ReportNotSent, ReportSender

__all__ = [
    "FoundWindow",
    "PositionBook",
    "ProducerReporter",
    "RangeReporter",
    "ReportNotSent",
    "ReportSender",
    "UnreportedBacklog",
    "range_reports",
    "retire",
    "see_to_audit_topic",
]
