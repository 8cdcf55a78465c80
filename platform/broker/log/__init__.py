"""A partition's log on disk: append, read by byte offset, recover, expire. Imports only `wire`."""

from . import topic_note
from .conditional_append import AlreadyThere, Appended, Refused, RefusedBecause
from .errors import (
    AppendFailed,
    BatchRefused,
    DamageAhead,
    FolderFault,
    LogError,
    LogUnusable,
    OffsetOutOfRange,
    OldFormat,
)
from .jobs.checkpoint_job import CheckpointJob
from .jobs.expire_job import ExpireJob
from .jobs.flush_job import FlushJob
from .jobs.segment_repair import Repaired, RepairJob
from .jobs.segment_scrub import ScrubJob
from .jobs.start_job import StartJob
from .leader_epochs import LeaderEpoch, LeaderEpochs
from .log_comparison import RepairRefused
from .log_config import LogConfig
from .log_format import LOG_FORMAT
from .log_start import erase_now
from .partition_log import PartitionLog
from .producer_state import Duplicate, Fenced, Fresh, OutOfOrder, ProducerStates, SequenceCheck
from .recovery import RecoveryReport
from .retention import SegmentFacts
from .segment.bad_range import BadRange
from .segment.file_region import FileRegion
from .segment.range_digest import RangeDigest, digest_of
from .segments import DeletedSegment

__all__ = [
    "LOG_FORMAT",
    "AlreadyThere",
    "AppendFailed",
    "Appended",
    "BadRange",
    "BatchRefused",
    "CheckpointJob",
    "DamageAhead",
    "DeletedSegment",
    "Duplicate",
    "ExpireJob",
    "Fenced",
    "FileRegion",
    "FlushJob",
    "FolderFault",
    "Fresh",
    "LeaderEpoch",
    "LeaderEpochs",
    "LogConfig",
    "LogError",
    "LogUnusable",
    "OffsetOutOfRange",
    "OldFormat",
    "OutOfOrder",
    "PartitionLog",
    "ProducerStates",
    "RangeDigest",
    "RecoveryReport",
    "Refused",
    "RefusedBecause",
    "RepairJob",
    "RepairRefused",
    "Repaired",
    "ScrubJob",
    "SegmentFacts",
    "SequenceCheck",
    "StartJob",
    "digest_of",
    "erase_now",
    "topic_note",
]
