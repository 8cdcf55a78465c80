"""The kinds of sources that an agent ships from: how each is made from its settings."""

from collections.abc import Sequence
from pathlib import Path

from ..runtime.clock import Clock
from .directory.directory_group import DirectoryGroup
from .directory.settings import directories_from
from .errors import SettingsRefused
from .journals import JournalGroup
from .receive.inbox import ROOT
from .receive.receivers import Receivers
from .receive.settings import https_from, syslogs_from
from .settings import AgentSettings
from .source import SourceGroup
from .tail.make import tail_group
from .tail.settings import sections_from


def check(settings: AgentSettings) -> None:
    """Raise SettingsRefused with every fault of every section."""
    faults: list[str] = []
    sections_from(settings.sections, faults)
    directories_from(settings.directories, faults)
    syslogs_from(settings.syslogs, faults)
    https_from(settings.https, faults)
    if faults:
        raise SettingsRefused("settings", faults)


def groups_of(settings: AgentSettings, clock: Clock, receivers: Receivers | None = None) -> Sequence[SourceGroup]:
    """Return the groups of an agent's sources, none of them scanned yet. Raises SettingsRefused with every fault.

    What receivers have journaled is shipped even where the settings name none any more.
    """
    faults: list[str] = []
    groups: list[SourceGroup] = []
    if settings.journals is not None:
        groups.append(JournalGroup(Path(settings.journals.root), settings.journals.topics, agent=settings.name, clock=clock))
    for section in sections_from(settings.sections, faults):
        groups.append(tail_group(section, host=settings.host, agent_name=settings.name, clock=clock))
    for directory in directories_from(settings.directories, faults):
        groups.append(DirectoryGroup(directory, host=settings.host, agent_name=settings.name, clock=clock))
    received = Path(settings.state) / ROOT
    if (receivers is not None and receivers.receivers) or received.is_dir():
        topics = () if receivers is None else receivers.topics
        events = dict if receivers is None else receivers.events
        groups.append(JournalGroup(received, topics, agent=settings.name, clock=clock, name=ROOT, more_events=events))
    if faults:
        raise SettingsRefused("settings", faults)
    return groups
