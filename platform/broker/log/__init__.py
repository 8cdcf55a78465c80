"""A partition's log on disk: append, read by byte offset, recover, expire. Imports only `wire`."""

from .bad_range import BadRange
from .check import Problem, ProblemKind, check
from .checkpoint_job import CheckpointJob
from .conditional_append import AlreadyThere, Appended, Refused, RefusedBecause
from .errors import AppendFailed, BatchRefused, FolderFault, LogError, LogUnusable, OffsetOutOfRange, OldFormat
from .expire_job import ExpireJob
from .file_slice import FileSlice
from .flush_job import FlushJob
from .log_config import LogConfig
from .log_format import LOG_FORMAT
from .log_start import erase_now
from .partition_log import PartitionLog
from .producer_state import Duplicate, Fenced, Fresh, OutOfOrder, ProducerStates, Verdict
from .recovery import RecoveryReport
from .retention import SegmentFacts
from .segment_scrub import SegmentScrub
from .segments import DeletedSegment
from .start_job import StartJob

__all__ = [
    "LOG_FORMAT",
    "AlreadyThere",
    "AppendFailed",
    "Appended",
    "BadRange",
    "BatchRefused",
    "CheckpointJob",
    "DeletedSegment",
    "Duplicate",
    "ExpireJob",
    "Fenced",
    "FileSlice",
    "FlushJob",
    "FolderFault",
    "Fresh",
    "LogConfig",
    "LogError",
    "LogUnusable",
    "OffsetOutOfRange",
    "OldFormat",
    "OutOfOrder",
    "PartitionLog",
    "Problem",
    "ProblemKind",
    "ProducerStates",
    "RecoveryReport",
    "Refused",
    "RefusedBecause",
    "SegmentFacts",
    "SegmentScrub",
    "StartJob",
    "Verdict",
    "check",
    "erase_now",
]
