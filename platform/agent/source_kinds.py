"""The kinds of sources that an agent ships from: how each is made from its settings."""

from collections.abc import Sequence
from pathlib import Path

from ..runtime.clock import Clock
from .errors import SettingsRefused
from .journals import JournalGroup
from .settings import AgentSettings
from .source import SourceGroup
from .tail.make import tail_group
from .tail.settings import sections_from


def groups_of(settings: AgentSettings, clock: Clock) -> Sequence[SourceGroup]:
    """Return the groups of an agent's sources, none of them scanned yet. Raises SettingsRefused with every fault."""
    faults: list[str] = []
    groups: list[SourceGroup] = []
    if settings.journals is not None:
        groups.append(JournalGroup(Path(settings.journals.root), settings.journals.topics, agent=settings.name, clock=clock))
    for section in sections_from(settings.sections, faults):
        groups.append(tail_group(section, host=settings.host, agent_name=settings.name, clock=clock))
    if faults:
        raise SettingsRefused("settings", faults)
    return groups
