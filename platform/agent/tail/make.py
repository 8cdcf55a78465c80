"""Puts a section's parts together."""

import time

from ...runtime.clock import Clock
from ..source import AuditRun
from .folders import Folders
from .line_encoder import LineEncoder
from .look_times import IDLE_MS
from .open_files import OpenFiles
from .section import Section
from .settings import TailSettings
from .tail_group import TailGroup


def tail_group(settings: TailSettings, *, host: str, agent_name: str, clock: Clock) -> TailGroup:
    """Return the files of one section, for the agent of this name on this host."""
    encoder = LineEncoder(settings.parser, topic=settings.topic, server_name=host, line_limit_bytes=settings.most_line_bytes)
    section = Section(
        name=f"tail:{settings.name}",
        topic=settings.topic,
        # The longest time between two checks of an idle file, so the longest delay of its next line.
        run=AuditRun(
            instance=f"{host}/{settings.application}/{agent_name}-{settings.name}", lateness_ms=settings.lateness_ms + IDLE_MS
        ),
        clock=clock,
        encoder=encoder,
        multiline=settings.multiline,
        line_limit_bytes=settings.most_line_bytes,
        rest_wait_ms=settings.rest_wait_ms,
        gone_wait_ms=settings.gone_wait_ms,
        open_files=OpenFiles(settings.most_open_files),
    )
    folders = Folders(settings.paths, settings.exclude, now_ns=time.time_ns, monotonic_ms=clock.monotonic_ms)
    return TailGroup(
        section,
        folders,
        begins_at_end=settings.start == "end",
        is_copied=settings.copytruncate,
        most_files=settings.most_files,
    )
