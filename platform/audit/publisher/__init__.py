"""How a tier tells the audit what it counted: `ProducerReporter` for producers, `RangeReporter` for tiers that read a log."""

from .audit_topic import see_to_audit_topic
from .producer_reporter import ProducerReporter
from .range_reporter import PositionBook, RangeReporter, UnreportedBacklog
from .retirement import retire
from .sending import ReportNotSent, ReportSender

__all__ = [
    "PositionBook",
    "ProducerReporter",
    "RangeReporter",
    "ReportNotSent",
    "ReportSender",
    "UnreportedBacklog",
    "retire",
    "see_to_audit_topic",
]
