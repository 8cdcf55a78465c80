"""What can go wrong with the agent."""

from ..errors import HeadraceError


class AgentError(HeadraceError):
    """The agent cannot continue."""


class SettingsRefused(AgentError):
    """The agent's settings are wrong; `faults` names each."""

    def __init__(self, where: str, faults: list[str]) -> None:
        self.faults = faults
        super().__init__(f"{where}: " + "; ".join(faults))


class StateRefused(AgentError):
    """The state file cannot be used: another agent holds it, another version wrote it, or it is not a state file."""


class SourceUnreadable(AgentError):
    """A source cannot be read now."""

    retriable = True
