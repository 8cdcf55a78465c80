"""How a tier tells the audit what it counted: `ProducerReporter` for producers, `RangeReporter` for tiers that read a log."""

from .producer_reporter import ProducerReporter
from .range_reporter import PositionBook, RangeReporter, UnreportedBacklog
from .sending import ReportNotSent, ReportSender

__all__ = ["PositionBook", "ProducerReporter", "RangeReporter", "ReportNotSent", "ReportSender", "UnreportedBacklog"]
